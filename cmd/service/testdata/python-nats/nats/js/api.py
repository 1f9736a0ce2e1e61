from types import SimpleNamespace

AckPolicy = SimpleNamespace(EXPLICIT="explicit")
ConsumerConfig = SimpleNamespace
