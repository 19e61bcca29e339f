"""Tells people what happens and brings their answers back. Telling is not acting: nothing here touches a cluster."""
