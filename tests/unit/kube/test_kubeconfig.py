import base64
import os
import subprocess
from pathlib import Path

import pytest

from healer.errors import ConfigError
from healer.kube import kubeconfig
from healer.kube.access import Anonymous, Basic, Certificate, Exec, Token, TokenFile

GOOD = """\
apiVersion: v1
kind: Config
current-context: prod
clusters:
- name: eu
  cluster:
    server: https://10.0.0.1:6443
    tls-server-name: kubernetes
- name: lab
  cluster: {server: 'http://127.0.0.1:8001', insecure-skip-tls-verify: true}
contexts:
- name: prod
  context: {cluster: eu, user: admin}
- name: lab
  context:
    cluster: lab
    user: ''
users:
- name: admin
  user: {token: abc}
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A certificate, PEM."""
    folder = tmp_path_factory.mktemp("authority")
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            "key.pem",
            "-out",
            "ca.pem",
            "-subj",
            "/CN=test",
            "-days",
            "2",
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return (folder / "ca.pem").read_bytes()


def write(folder: Path, text: str, name: str = "config") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def problems(folder: Path, text: str, context: str = "") -> list[str]:
    path = write(folder, text)
    with pytest.raises(ConfigError) as caught:
        kubeconfig.load(path, context=context)
    return [str(problem).removeprefix(f"{path}:") for problem in caught.value.problems]


def test_the_current_context_says_where_and_as_whom(tmp_path: Path) -> None:
    access = kubeconfig.load(write(tmp_path, GOOD))
    assert (access.server, access.server_name) == ("https://10.0.0.1:6443", "kubernetes")
    assert access.credentials == Token(token="abc")
    assert not access.skip_verification


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    access = kubeconfig.load(write(tmp_path, GOOD), context="lab")
    assert (access.server, access.skip_verification) == ("http://127.0.0.1:8001", True)
    assert access.credentials == Anonymous()


def test_a_secret_is_not_shown_by_accident(tmp_path: Path) -> None:
    assert "abc" not in repr(kubeconfig.load(write(tmp_path, GOOD)))


def test_an_unknown_context_is_answered_with_those_there_are(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD, "staging") == ["1:1: no context is named 'staging'; there are prod, lab"]
    wrong = GOOD.replace("current-context: prod", "current-context: prd")
    assert problems(tmp_path, wrong) == ["3:18: current-context: no context is named 'prd'; there are prod, lab"]


def test_a_file_without_a_current_context_asks_for_one(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, GOOD.replace("current-context: prod\n", ""))
    assert found == "1:1: current-context: is missing, so say which context; there are prod, lab"


def test_a_context_that_names_what_is_not_there_is_shown_where_it_stands(tmp_path: Path) -> None:
    wrong = GOOD.replace("{cluster: eu, user: admin}", "{cluster: us, user: root}")
    assert problems(tmp_path, wrong) == [
        "13:22: contexts.0.context.cluster: no cluster is named 'us'; there are eu, lab",
        "13:32: contexts.0.context.user: no user is named 'root'; there are admin",
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("https://10.0.0.1:6443", "10.0.0.1:6443", "7:13: clusters.0.cluster.server: must be a URL such as"),
        ("    server: https://10.0.0.1:6443\n", "", "7:5: clusters.0.cluster.server: is missing"),
        ("tls-server-name: kubernetes", "proxy-url: http://p", "8:16: clusters.0.cluster.proxy-url: proxies are not"),
        (
            "tls-server-name: kubernetes",
            "certificate-authority: missing.pem",
            "8:28: clusters.0.cluster.certificate-authority: cannot read",
        ),
        (
            "tls-server-name: kubernetes",
            "certificate-authority-data: '???'",
            "8:33: clusters.0.cluster.certificate-authority-data: is not base64",
        ),
        (
            "tls-server-name: kubernetes",
            "certificate-authority-data: aGVsbG8=",
            "8:33: clusters.0.cluster.certificate-authority-data: holds no certificate in PEM form",
        ),
        (
            "tls-server-name: kubernetes",
            "insecure-skip-tls-verify: maybe",
            "8:31: clusters.0.cluster.insecure-skip-tls-verify: must be true or false",
        ),
        ("{token: abc}", "{auth-provider: {name: gcp}}", "20:25: users.0.user.auth-provider: Kubernetes 1.26 removed"),
        ("{token: abc}", "{token: abc, as: root}", "20:26: users.0.user.as: impersonation is not supported"),
        ("{token: abc}", "{tokenFile: no-such-file}", "20:21: users.0.user.tokenFile: there is no file"),
        ("{token: abc}", "{client-key-data: YQ==}", "20:9: users.0.user.client-certificate: is missing"),
        ("{token: abc}", "[token]", "20:9: users.0.user: must be a mapping"),
        ("{token: abc}", "{token: [a]}", "20:17: users.0.user.token: must be text"),
        (
            "{token: abc}",
            "{exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}}",
            "20:29: users.0.user.exec.apiVersion: must be one of",
        ),
        (
            "{token: abc}",
            "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always, command: x}}",
            "20:79: users.0.user.exec.interactiveMode: there is nobody at a terminal",
        ),
        ("- name: eu\n", "- nam: eu\n", "5:3: clusters.0.name: is missing"),
    ],
    ids=lambda value: value if " " not in value and len(value) < 30 else value[-30:],
)
def test_a_mistake_is_shown_with_its_line_and_column(tmp_path: Path, old: str, new: str, expected: str) -> None:
    assert old in GOOD
    assert problems(tmp_path, GOOD.replace(old, new))[0].startswith(expected)


def test_every_mistake_is_reported_at_once(tmp_path: Path) -> None:
    wrong = GOOD.replace("https://10.0.0.1:6443", "nowhere").replace("{token: abc}", "{as: root, tokenFile: none}")
    assert len(problems(tmp_path, wrong)) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: is not a kubeconfig"),
        ("- a", "1:1: is not a kubeconfig"),
        ("clusters: [", "1:"),
        ("a: b\n\tc: d", "2:1:"),
    ],
    ids=["empty", "a list", "not closed", "a tab"],
)
def test_what_is_no_kubeconfig_is_said_so(tmp_path: Path, text: str, expected: str) -> None:
    assert problems(tmp_path, text)[0].startswith(expected)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none:1:1: cannot be read: No such file"):
        kubeconfig.load(str(tmp_path / "none"))


def test_several_files_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    first = write(tmp_path, "users:\n- name: admin\n  user: {token: mine}\n", "first")
    second = write(tmp_path, GOOD, "second")
    both = {"KUBECONFIG": os.pathsep.join([first, str(tmp_path / "missing"), second])}
    access = kubeconfig.load(environment=both)
    assert access.server == "https://10.0.0.1:6443"
    assert access.credentials == Token(token="mine")
    assert kubeconfig.contexts(environment=both) == ("prod", "lab")


def test_without_a_path_it_is_the_one_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube", GOOD)
    assert kubeconfig.load(environment={}).server == "https://10.0.0.1:6443"
    assert kubeconfig.load("~/.kube/config").server == "https://10.0.0.1:6443"


def test_files_are_looked_for_beside_the_kubeconfig(tmp_path: Path, authority: bytes) -> None:
    (tmp_path / "ca.pem").write_bytes(authority)
    (tmp_path / "token").write_text("t")
    text = GOOD.replace("tls-server-name: kubernetes", "certificate-authority: ca.pem")
    access = kubeconfig.load(write(tmp_path, text.replace("{token: abc}", "{tokenFile: token, token: old}")))
    assert access.authority == authority
    assert access.credentials == TokenFile(path=tmp_path / "token")


def test_data_wins_over_files(tmp_path: Path, authority: bytes) -> None:
    data = base64.b64encode(authority).decode()
    text = GOOD.replace(
        "tls-server-name: kubernetes", f"certificate-authority: no-such-file\n    certificate-authority-data: {data}"
    )
    assert kubeconfig.load(write(tmp_path, text)).authority == authority


def test_an_authority_and_no_verification_contradict_each_other(tmp_path: Path, authority: bytes) -> None:
    data = base64.b64encode(authority).decode()
    wrong = GOOD.replace(
        "tls-server-name: kubernetes", f"certificate-authority-data: {data}\n    insecure-skip-tls-verify: true"
    )
    assert problems(tmp_path, wrong)[0].startswith("9:31: clusters.0.cluster.insecure-skip-tls-verify: contradicts")


def test_client_certificates_basic_credentials_and_plugins_are_read(tmp_path: Path) -> None:
    def as_(user: str) -> str:
        return write(tmp_path, GOOD.replace("{token: abc}", user))

    access = kubeconfig.load(as_("{client-certificate-data: YQ==, client-key-data: Yg==}"))
    assert access.certificate == Certificate(certificate=b"a", key=b"b")
    assert kubeconfig.load(as_("{username: u, password: p}")).credentials == Basic(username="u", password="p")
    plugin = "apiVersion: client.authentication.k8s.io/v1beta1, command: ./login, args: [-x], provideClusterInfo: true"
    found = kubeconfig.load(as_(f"{{exec: {{{plugin}, env: [{{name: A, value: b}}]}}}}")).credentials
    assert found == Exec(
        api_version="client.authentication.k8s.io/v1beta1",
        command=str(tmp_path / "login"),
        arguments=("-x",),
        environment={"A": "b"},
        provide_cluster=True,
    )


def test_inside_a_cluster_the_service_account_is_used(tmp_path: Path, authority: bytes) -> None:
    (tmp_path / "ca.crt").write_bytes(authority)
    (tmp_path / "token").write_text("t")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = kubeconfig.in_cluster(environment=environment, folder=tmp_path)
    assert access.server == "https://[fd00::1]:6443"
    assert access.credentials == TokenFile(path=tmp_path / "token")
    assert access.authority == authority


def test_outside_a_cluster_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this is no pod; give a kubeconfig instead"):
        kubeconfig.in_cluster(environment={})
    with pytest.raises(ConfigError, match=r"ca\.crt:1:1: No such file or directory; is automount"):
        kubeconfig.in_cluster(environment={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, folder=tmp_path)
