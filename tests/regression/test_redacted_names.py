"""Redaction of credentials that are known by the name before them.

`DB_PASSWORD=...`, `{"password": ...}`, `Cookie: session=...` and a short valid JWT passed every
redaction. They are found now, and neither a hash or an id nor ordinary code is taken for one.
"""

from __future__ import annotations

import json
import re
import string
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from harken.core.secrets.redaction import find_credentials, redact

DATA = Path(__file__).parents[2].parent / "shared" / "data"
RANDOM = Random(15)
HEX, WORD = "0123456789abcdef", string.ascii_letters + string.digits
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJhIjoxfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"

FOUND = """
DB_PASSWORD=«hunter2»
export DB_PASSWORD=«correcthorse»
POSTGRES_PASSWORD: «swordfish»
DB_PASSWORD="«pa$$w0rd&x»"
DB_PASSWORD='«several words 1»'
    password: «hunter2»
{"password": "«hunter2»"}
{"password":"«swordfish»"}
{'password': '«hunter2»'}
{"auth":{"user":"x","passphrase":"«tr0ub4dor&3»"}}
password = "«hunter2»"
password: str = "«hunter2»"
config["password"] = "«hunter2»"
connect(password="«swordfish»")
spring.datasource.password=«S3cr3t»
Server=db;User Id=sa;Password=«S3cret!»;
Server=db;Uid=sa;Pwd=«S3cret!»;
https://example.org/login?user=a&password=«hunter2»&x=1
<password>«hunter2»</password>
machine api.example login bob password «hunter2»
mysql --password «hunter2» db
mysql --password=«hunter2» db
curl -u bob:«hunter2» https://example.org
curl -s --user "bob:«hunter2»" https://example.org
PGPASSWORD=«hunter2» psql
postgres://app:«p@ss1word»@db/x
SMTP_PASS=«mailpass123»
DB_PASS: «hunter2»
db_pass = "«hunter2»"
{"pass": "«hunter2»"}
ansible_become_pass: "«hunter2»"
:password => "«hunter2»"
$env:DB_PASSWORD = "«hunter2»"
var dbPassword string = "«hunter2»"
private static final String PASSWORD = "«hunter2»";
{"newPassword":"«hunter2»"}
{"private_key_id":"x","api_key":"«0a1b2c3d4e5f60718293»"}
APP_KEY=base64:«2fl+Ktvkfl+Fuz4Qp/A75G2RTiWVA/ZoKZvp6fiiM10=»
JWT_SECRET="«correct horse battery staple 1»"
//npm.pkg.example/:_password=«aHVudGVyMg==»
authorization: ApiKey «abc123def456ghi789»
curl -b "session=«abcdef1234567890»" https://example.org
sshpass -p «hunter2» ssh x
mysql -uroot -p«hunter2» db
docker login -u bob -p «hunter2» registry.example
ENV DB_PASSWORD «hunter2»
setx PASSWORD «hunter2»
<add key="DbPassword" value="«hunter2»"/>
<property name="password">«hunter2»</property>
API_TOKEN=«abcdef123456»
token: «4f9a8b7c6d5e4f3a2b1c»
"access_token": "«abcDEF123456ghiJKL78»"
apiKey: "«abcDEF123456ghiJKL78»"
SECRET_KEY_BASE=«0a1b2c3d4e5f60718293a4b5c6d7e8f9»
SECRET_KEY = '«django-insecure-1$xyz#abc%def0123456789»'
X-Auth-Token: «0a1b2c3d4e5f60718293»
client_secret=«abcDEF123456ghiJKL78»&grant=1
Authorization: Basic «dXNlcjpwYXNz»
Cookie: session=«abcdef0123456789»
Cookie: theme=«dark; sessionid=abcdef0123456789; x=y»
Set-Cookie: sid=«s%3Aabc123.def456; Path=/; HttpOnly»
"cookie": "session=«abc123def456»"
""".strip().splitlines()

NOT_FOUND = """
password = getpass()
password = getpass.getpass("Password: ")
token: str
token: str = ""
password: str | None = None
password: string;
password: SecretStr
Password: Type2
let token: u64 = 0;
token = next(tokens)
token = tokens[0]
token = self.tokens.next_token_2()
token=token_from_header_v2
const token = await getToken123(x)
def login(user: str, password: str, token: bytes32) -> None:
password=password
password=args.password,
password := cfg.Password2
password = os.environ["DB_PASSWORD"]
DB_PASSWORD = os.environ.get("DB_PASSWORD")
DB_PASSWORD=$PW
DB_PASSWORD=${PW:-x}
DB_PASSWORD=$(pass show db1)
DB_PASSWORD=<your-password>
DB_PASSWORD={{ password1 }}
DB_PASSWORD=changeme
PASSWORD_FILE=/run/secrets/db1
PASSWORD: the password of the database
RESET_PASSWORD = "/reset-password"
raise ValueError("password: must have 8 characters")
"password": "string"
"password": ""
"password": "********"
"password": null
"password": 123456
"password": "Enter your password"
password: "{{ .Values.password1 }}"
{"type": "password", "name": "password"}
<input type="password" name="password" id="pw1">
password_hash = "$2b$12$abcdefghijklmnopqrstuv"
max_tokens: 4096, "input_tokens": 123
"token_count": 12, tokenizer = "cl100k_base"
"next_page_token": "CAESBkFCQzEyMzQ1Njc4OQ"
"nextPageToken": "CAESBkFCQzEyMzQ1Njc4OQ"
eos_token = "<|endoftext|>"
sync_token: 1234567890abcdef1234
secret: my-secret-name
secretName: db-credentials-01
valueFrom: {secretKeyRef: {name: db-1, key: password}}
secret = hashlib.sha256(b"x1").hexdigest()
api_key = os.getenv("OPENAI_API_KEY_2")
api_key=settings.openai_api_key_2
API_KEY=your-api-key-here-123
access_key: int = 0x1234567890abcdef
private_key: "path/to/key.pem"
private_key = "./keys/id_rsa_2048.pem"
"token": "https://example.org/token1234"
verdict: passed ? 'pass' : 'fail'
{"pass": "fail", "first_pass": "12ms"}
user_pass = '%s:%s'
PASS: test_1 (12 ms)
<label for="password">Password1</label>
Type a password sha256
PWD=/srv/project1
pwd: /home/user1
Cookie: $COOKIE
cookies: list[str] = []
""".strip().splitlines()


@pytest.mark.parametrize("marked", FOUND)
def test_a_credential_is_known_by_its_name(marked: str) -> None:
    before, secret, after = re.split("[«»]", marked)
    done = redact(before + secret + after)
    assert re.fullmatch(
        re.escape(before) + r"\[redacted [a-z-]+\]" + re.escape(after), done.text
    ), done.text
    assert redact(done.text).matches == ()


@pytest.mark.parametrize("marked", FOUND)
def test_it_is_found_in_json_which_stays_json(marked: str) -> None:
    before, secret, after = re.split("[«»]", marked)
    line = json.dumps({"content": f"one\n{before}{secret}{after}\ntwo"})
    nested = json.dumps({"arguments": line})
    assert secret not in json.loads(redact(line).text)["content"]
    inner = json.loads(redact(nested).text)["arguments"]
    assert secret not in json.loads(inner)["content"]


@pytest.mark.parametrize(
    "value", ["pwd=\n1a2b3c4d", "PWD:\té9x8y7z", 'pwd="\n1a2b3c4d"', "Pwd = \x1b1a2b3c"]
)
def test_an_escape_in_json_is_not_cut_in_two(value: str) -> None:
    """A line of a log was no JSON after its credentials were replaced.

    After `pwd=` the backslash of `\\n` was taken for one before a quote, and the `n` for a password.
    Now a backslash without a quote begins no value.
    """
    line = json.dumps({"content": value})
    assert json.loads(redact(line).text)["content"].startswith(value[:3])
    nested = json.dumps({"arguments": line})
    assert json.loads(json.loads(redact(nested).text)["arguments"])


@pytest.mark.parametrize("text", NOT_FOUND)
def test_ordinary_code_and_stand_ins_stay(text: str) -> None:
    for form in (text, json.dumps(f"one\n{text}\ntwo")):
        assert redact(form).text == form


@pytest.mark.parametrize("frame", ["{}", "token={}", "x?jwt%3D{}", '{{"t":"{}"}}', "\\u003d{}"])
def test_a_short_jwt_is_found(frame: str) -> None:
    assert redact(frame.format(JWT)).text == frame.format("[redacted jwt]")


def some(letters: str, size: int) -> str:
    return "".join(RANDOM.choices(letters, k=size))


def identifiers() -> Iterator[str]:
    """Yield hashes and ids of the kinds that stand in transcripts: 15,800 in all."""
    digests = [32, 40, 56, 64, 96, 128]
    prefixes = [
        "toolu_01",
        "call_",
        "msg_01",
        "ctx-",
        "art-",
        "req_",
        "resp_",
        "chatcmpl-",
        "fc_",
        "rs_",
        "run_",
        "thread_",
    ]
    algorithms = ["sha256", "sha384", "sha512", "sha1", "md5"]
    for number in range(1975):
        digest = some(HEX, digests[number % len(digests)])
        data = RANDOM.randbytes(16 + number % 64)
        yield digest
        yield str(UUID(int=RANDOM.getrandbits(128), version=4))
        yield b64encode(data).decode()
        yield urlsafe_b64encode(data).decode()
        yield f"{algorithms[number % 5]}-{b64encode(RANDOM.randbytes(64)).decode()}"
        yield f"{algorithms[number % 5]}:{digest}"
        yield prefixes[number % len(prefixes)] + some(WORD, 22 + number % 40)
        yield f"image@sha256:{some(HEX, 64)}"


FRAMES = [
    "{}",
    '{{"id":"{}","type":"tool_use"}}',
    '"tool_use_id": "{}"',
    "commit {}",
    '"integrity": "{}",',
    "index: {}",
    "    --hash={}",
    "key={}",
    "?page={}&n=1",
    '"next_page_token": "{}"',
    "password_hash={}",
    "etag: {}",
]


def test_no_hash_or_id_is_taken_for_a_credential() -> None:
    """0 of 15,800, each in the frames in which such a name stands."""
    names = list(identifiers())
    assert len(names) == 15_800
    for frame in FRAMES:
        text = "\n".join(frame.format(name) for name in names)
        eaten = [text[found.start - 40 : found.end] for found in find_credentials(text)]
        assert eaten == [], frame


IDENTIFIER = re.compile(
    r"\b(?:toolu_|call_|msg_|req_|resp_|chatcmpl-|fc_|rs_|ctx-|art-)[A-Za-z0-9_-]{16,}"
    r"|\b[0-9a-f]{32,128}\b|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    r"|\bsha\d{1,3}[-:][A-Za-z0-9+/=]{32,}"
)


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared transcripts are not here")
def test_no_id_of_real_transcripts_is_taken_for_a_credential() -> None:
    """Each stays where it stands. The files are those of moderate size, for time's sake."""
    seen = 0
    for path in sorted(DATA.rglob("*")):
        if not path.is_file() or path.stat().st_size > 200_000:
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        spans = [(found.start, found.end) for found in find_credentials(text)]
        names = list(IDENTIFIER.finditer(text))
        seen += len(names)
        eaten = [n[0] for n in names if any(a < n.end() and n.start() < b for a, b in spans)]
        assert eaten == [], path
    assert seen > 5_000


@pytest.mark.parametrize(
    "unit",
    ["password", "PASSWORD='a ", "password=a1", "password: a.", 'password="a\\\\b', "token=a1",
     "TOKEN=a1_", "Cookie: a=b; ", "cookie: a=1;", "login a password ", "curl -u a:", "pwd=a1",
     "eyJa", "://a:b@", "basic aA", "password>"],
)  # fmt: skip
def test_no_text_takes_time_that_grows_with_its_square(unit: str) -> None:
    times = []
    for size in (20_000, 200_000):
        begin = time.process_time()
        find_credentials(unit * (size // len(unit)))
        times.append(time.process_time() - begin)
    assert times[1] < 5
