"""Signature Version 4 against the examples that AWS publishes (`aws-sig-v4-test-suite`)."""

import calendar
import time

import pytest

from hermes.providers.clouds.aws_signature import AwsCredentials, SigningScope, sign_request

CREDENTIALS = AwsCredentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SCOPE = SigningScope("us-east-1", "service")
AT = calendar.timegm(time.strptime("20150830T123600Z", "%Y%m%dT%H%M%SZ"))
HOST = "https://example.amazonaws.com"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "signature"),
    [
        ("GET", "/", {}, b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", {}, b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        ("POST", "/", FORM, b"Param1=value1", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
        (
            "GET",
            "/?Param2=value2&Param1=value1",
            {},
            b"",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
    ],
)
def test_published_examples(method: str, path: str, headers: dict[str, str], body: bytes, signature: str) -> None:
    signed = sign_request(method, HOST + path, headers, body, credentials=CREDENTIALS, scope=SCOPE, at=AT)
    assert signed["authorization"].startswith(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders="
    )
    assert signed["authorization"].endswith(f"Signature={signature}")
    assert signed["x-amz-date"] == "20150830T123600Z" and "host" not in signed


def test_nothing_shows_the_secret() -> None:
    held = AwsCredentials("AKIDEXAMPLE", "wJalr-secret", "session-token")
    assert "secret" not in repr(held) and "session-token" not in repr(held)
    signed = sign_request("POST", HOST + "/", {}, b"x", credentials=held, scope=SCOPE, at=AT)
    assert "wJalr" not in str(signed) and signed["x-amz-security-token"] == "session-token"
    assert "x-amz-security-token" in signed["authorization"]
