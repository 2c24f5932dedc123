"""Node ids under SuperNode authentication stay across restarts; without it they do not."""

import datetime
import ipaddress
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fedmerit.flower.deployment import CONNECTION, Deployment, Security

pytestmark = pytest.mark.federation


def pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def certificates(folder):
    """A certificate authority of our own, and a certificate for 127.0.0.1."""
    now = datetime.datetime.now(datetime.UTC)
    ca_key, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedmerit test")])
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])

    def certificate(subject, public_key, extension):
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(ca_name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=False)
            .sign(ca_key, hashes.SHA384())
            .public_bytes(serialization.Encoding.PEM)
        )

    files = Security(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    authority = x509.BasicConstraints(ca=True, path_length=None)
    files.ca_certificate.write_bytes(certificate(ca_name, ca_key.public_key(), authority))
    loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    files.certificate.write_bytes(certificate(name, key.public_key(), loopback))
    files.key.write_bytes(pem(key))
    return files


def node_key(folder, name):
    """An elliptic-curve key pair as OpenSSH writes it."""
    key = ec.generate_private_key(ec.SECP384R1())
    private, public = folder / name, folder / f"{name}.pub"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
    )
    return private, public


def online(deployment):
    return {node["node-id"] for node in deployment.nodes() if node["status"] == "online"}


def wait_until_online(deployment, known=frozenset()):
    deadline = time.monotonic() + 60
    while not (found := online(deployment) - known):
        assert time.monotonic() < deadline, "the SuperNode comes online"
    return found


def wait_until_offline(deployment):
    deadline = time.monotonic() + 60
    while online(deployment):
        assert time.monotonic() < deadline, "the SuperNode goes offline"


def restart(deployment, key=None):
    deployment.processes["node"].terminate()
    deployment.processes["node"].wait()
    wait_until_offline(deployment)
    deployment.start_node("node", "partition-id=0 num-partitions=1", key)


def test_an_authenticated_node_keeps_its_id_when_it_restarts(tmp_path):
    private, public = node_key(tmp_path, "node")
    stranger, _ = node_key(tmp_path, "stranger")
    with Deployment(tmp_path / "federation", certificates(tmp_path)) as deployment:
        registered = deployment.flwr("supernode", "register", str(public), CONNECTION)["node-id"]
        deployment.start_node("stranger", "partition-id=0 num-partitions=1", stranger)
        deployment.start_node("node", "partition-id=0 num-partitions=1", private)
        assert wait_until_online(deployment) == {str(registered)}
        restart(deployment, private)
        assert wait_until_online(deployment) == {str(registered)}


def test_a_node_that_does_not_prove_who_it_is_gets_a_new_id(tmp_path):
    with Deployment(tmp_path / "federation") as deployment:
        deployment.start_node("node", "partition-id=0 num-partitions=1")
        first = wait_until_online(deployment)
        restart(deployment)
        assert not wait_until_online(deployment) & first
