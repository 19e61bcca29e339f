import pytest

from healer.kube import quantities


@pytest.mark.parametrize(
    ("text", "millicores"),
    [
        ("250m", 250),
        ("2", 2000),
        (2, 2000),
        ("0.5", 500),
        (".5", 500),
        ("1e3", 1_000_000),
        ("1E3", 1_000_000),
        ("1n", 1),
    ],
)
def test_cpu_is_read_in_thousandths_and_rounded_up(text: str | int, millicores: int) -> None:
    assert quantities.millicores(text) == millicores


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1Gi", 2**30),
        ("1G", 10**9),
        ("1.5Ki", 1536),
        ("128974848", 128974848),
        ("129e6", 129_000_000),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("100k", 100_000),
        ("1500m", 2),
        ("0", 0),
        ("-1Ki", -1024),
    ],
)
def test_memory_is_read_in_bytes(text: str, size: int) -> None:
    assert quantities.whole(text) == size


@pytest.mark.parametrize("text", ["", "Gi", "1Q", "1 Gi", "1_000", "1e9999", "0x10", "nan", "inf", "1e3Ki"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity"):
        quantities.whole(text)
