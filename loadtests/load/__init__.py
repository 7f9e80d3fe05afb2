"""The parts of ``loadtests/locustfile.py`` that do not need locust."""
