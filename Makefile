# make run            set everything up and start a chat (make run Q="..." answers once and exits)
# make test           set everything up and run the tests
# make test-fast      the daily loop, a minute at most: the tests that are not marked slow, of every folder of hermes/
#                     one test: .venv/bin/python -m pytest tests/store/test_search.py -k name
# make check          tests, lint, types, import contracts, shape limits, dependencies
# make matrix         every class of provider error on every wire, with what is done about it, as a table
# make torture        3,400 kill -9 at random instants of turns and compressions, each followed by a resume (30 minutes)
# make resume-race    8 processes resume one session at once, 200 times: one does the work (4 minutes)
# make file-kills     2,000 kills, stops and time-outs while files are written and searched (20 minutes; COUNT=500 of each)
# make edits          5,000 edits with small faults (quotes, blanks, indentation, line ends): no other byte changes (COUNT=500 SEED=7)
# make streams        1,100 answers in the form of every vendor, 50 of them cut and ended at every byte (5 minutes; ONLY=word EVERY=7)
# make documents      300 documents of 15 kinds, in English, Chinese and Arabic, against the words they were made of (needs chromium and
#                     LibreOffice; 3 minutes; COUNT=45 SEED=7)
# make hostile-files  400 hostile and broken files through the readers of documents and pictures (1 minute; COUNT=100 SEED=7)
# make globs          5,000 globs of search_files against ripgrep's own (needs ripgrep; 9 minutes; COUNT=500 SEED=7)
# make code-kills     1,000 kill -9 at random calls of code that runs: it goes on there, its output is that of the undisturbed run, and
#                     each effect is there once (25 minutes; COUNT=100 SEED=7)
# make plugin-bench   what the hooks of three folder plug-ins cost a call, their start and memory, and programs as hooks (20 seconds; CALLS=1000)
# make code-upgrade   code that waits at a call goes on under another version of its interpreter, in an environment of its own (1 minute)
# make code-bench     what a call of code costs, the first result, the memory of a run, and the tokens of 20 looks (1 minute)
# make writers        32 processes write one home for a minute, kills among them
# make browser-kills  kill -9 of a process that uses a browser, 100 times: no process is left (2 minutes; COUNT=20 SEED=7)
# make stops          a stop in the middle of everything, measured at the server and in the process table (2 minutes)
# make json-stops     2,000 stops, TERMs, closed pipes and kills of `hermes -z --stream-json`, half of them through a gateway: the
#                     last line names the outcome, and no whole line is half JSON (15 minutes; COUNT=300 SEED=7)
# make browser-bench  what the browser costs: start, CPU beside the bare browser, memory, snapshots (1 minute; ROUNDS=5)
# make browser-tasks  twenty tasks on sites of our own, and what they cost in tokens beside Playwright's MCP server and agent-browser
#                     (5 minutes; PEERS=folder where npm has installed @playwright/mcp and agent-browser; ONLY=form,drag)
# make bench          whole-process and per-round costs, beside other programs where they are installed
# make load           bursts of 1 to 1,000 users on the API server (PEER=... for another program beside it; 10 minutes)
# make tools         what calls of tools cost: reading, changing, searching, `true` in the sandbox, marks (5 minutes)
# make many           what a turn costs with one to a thousand sessions in one process
# make search-oracle  5,000 generated searches against SQLite's own full-text search (10 seconds; COUNT=100000 SEED=7)
# make recall         recall and time of searches of a dozen kinds in a million messages, with three seeds (10 minutes)
# make faults         2,000 random scripts of faults against the whole program, 100 more on the real clock by three front-ends
#                     (15 minutes; make faults COUNT=100 FRONTS=10 SEED=7)
# make templates      conversations with 48 servers that refuse orders of roles; no refusal may end a turn (2 minutes)
# make sign-ins       50 processes with one token that has run out: one refresh
# make escapes        197 ways out of the sandbox, and what hostile plug-ins try, for real: as this user and, by the superuser, as another
# make backends       every place where commands run, containers too (needs podman or docker and a static busybox)
# make fuzz           half an hour each of guided fuzzing of the analyser and the redactor (needs atheris; MINUTES=30)
# make cap-race       a cap on money against 50 turns at once in 4 processes, and against 4 sessions with 50 sub-agents
#                     each, kills among them, ten times
# make sub-agent-kills  kill -9 of a process with a thousand sub-agents in trees, 200 times (COUNT=50)
# make sub-agents     what sub-agents cost: cached share of their prompts, memory of idle ones
# make talk           200 turns with tools, memory and skills over ten processes on three wires; URL=... against a server
# make ends           real ends: Synapse, dovecot, opensmtpd, Home Assistant, npm's openai (as root on Debian; 4 minutes)
# make acp            the Agent Client Protocol: three clients of others, every message by the public schema, what it costs, and
#                     100 kills of the editor (needs npm and node; 6 minutes; KILLS=20)
# make screens        the pictures of the README, anew (needs tmux and two fonts; see scripts/screens.py)
# make cron-year gateway-kills gateway-turns      300 jobs through a year of moved clocks, sleeps and restarts (10 minutes; DAYS=30 SEED=7)
# make cron-fields    5,000 random schedules against cronsim and a walk over the days (COUNT=5000 SEED=1)
# make gateway-kills  500 kill -9 of the gateway under load on every platform; every message answered once, in order (30 minutes;
#                     DELEGATE=1 has a sub-agent work on every third message)
# make family         230 steps in the life of a family's bot on Telegram and Discord, each held to what a page of docs/ promises
#                     (5 minutes; ONLY=pairing,groups MATCH=word)
# make gateway-turns  20,000 turns of a gateway, and what is left of them in its memory (10 minutes)
# make wheel          the wheel and the source archive, in dist/
# make install-check  installs them with pip, pipx and uv from an index on loopback, each extra too, and by action.yml, and asks each
#                     `hermes` a prompt (5 minutes; ONLY=pip,uv; WITH=python3.13 for another Python)
# make image          builds the container image with podman or docker, asks a prompt, opens the chat, runs the gateway, and says its
#                     size (3 minutes; IMAGE_OPTIONS="--bootstrap --index": see scripts/image_check.py)
# make mcp-conformance  every scored client and server scenario of the official MCP suite, of both revisions (2 minutes; FOLDER=/tmp/x; installs
#                     node and the suite there)
# make mcp-servers    every tool, resource and prompt of seven official MCP servers of npm and PyPI (1 minute; FOLDER=/tmp/x)
# make units          boots a small Debian with systemd and runs the gateway there as a service, of an account and of the machine
#                     (5 minutes; needs root, debootstrap and systemd-nspawn)
# make release-notes  what CHANGELOG.md says of a version (VERSION=0.1.0; without: what is not released yet)
# make shape          the shape table of the tree
# make lock           resolve the locked requirements anew (needs uv)

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes

.PHONY: run test test-fast check compiled matrix faults streams templates torture resume-race writers file-kills edits globs \
  code-kills code-upgrade code-bench plugin-bench browser-bench browser-tasks \
  stops json-stops escapes backends fuzz cap-race sub-agent-kills sub-agents bench tools many recall search-oracle talk \
  cron-year cron-fields family ends acp load screens shape lint types contracts deps lock clean \
  documents hostile-files \
  wheel install-check image units release-notes sign-ins mcp-conformance mcp-servers browser-kills

run: $(VENV)/run.stamp
ifdef Q
	@$(BIN)/hermes --oneshot="$$Q"
else
	@$(BIN)/hermes
endif
# The text goes through as it was typed, dollar signs and all.
override export Q := $(value Q)

# Half of the time tests wait for processes and terminals: four at once keep two cores busy. A worker that is done takes
# over tests of another, so that all end together.
test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 6 --dist worksteal

# Slow are whole programs, real terminals and campaigns: SLOW_FOLDERS in tests/conftest.py, and the mark `slow`.
test-fast: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 -m "not slow"

check: lint types contracts shape deps test

# The Chinese of what is said (scripts/words.py) is held by tests/i18n/test_catalog.py.
lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev.stamp
	$(BIN)/mypy

contracts: $(VENV)/dev.stamp
	$(BIN)/lint-imports

shape: $(VENV)/dev.stamp
	$(BIN)/python scripts/shape.py

deps: $(VENV)/dev.stamp
	$(BIN)/deptry .
	$(BIN)/vulture hermes tests/vendors --min-confidence 80

# Leaves the compiled forms of all that the tests import.
compiled: $(VENV)/dev.stamp
	$(BIN)/python -m pytest --collect-only -q >/dev/null

matrix: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.llm.error_matrix

faults: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.fault_runner --count $(or $(COUNT),2000) --seed $(or $(SEED),0)
	@$(BIN)/python -m tests.torture.fault_fronts --count $(or $(FRONTS),100) --seed $(or $(SEED),0)

search-oracle: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.search_oracle --count $(or $(COUNT),5000) --seed $(or $(SEED),0)

documents: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.document_campaign --count $(or $(COUNT),300) --seed $(or $(SEED),0)

hostile-files: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.hostile_campaign --count $(or $(COUNT),400) --seed $(or $(SEED),0)

templates: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.template_campaign --only "$(ONLY)"

streams: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.streams.campaign --only "$(ONLY)" --every $(or $(EVERY),1)

fuzz: $(VENV)/dev.stamp
	$(BIN)/python -m tests.torture.fuzz analyser --minutes $(or $(MINUTES),30)
	$(BIN)/python -m tests.torture.fuzz redactor --minutes $(or $(MINUTES),30)

gateway-kills: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.gateway_kills --kills $(or $(COUNT),500) --seed $(or $(SEED),0) $(if $(DELEGATE),--delegate)

family: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.family.campaign --only "$(ONLY)" --match "$(MATCH)"

gateway-turns: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.gateway_turns

cap-race: $(VENV)/dev.stamp
	$(BIN)/python scripts/cap_race.py --repeat 10
	$(BIN)/python scripts/cap_race.py --repeat 10 --agents 50

browser-kills: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.browser_kills --kills $(or $(COUNT),100) --seed $(or $(SEED),0)

sub-agent-kills: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.sub_agent_kills --kills $(or $(COUNT),200) --longest 1.1 --seed $(or $(SEED),1)

sub-agents: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.sub_agents

torture: $(VENV)/dev.stamp
	$(BIN)/python -m tests.torture.kills
	$(BIN)/python -m tests.torture.compression_kills

resume-race: $(VENV)/dev.stamp
	$(BIN)/python -m tests.torture.resume_race

file-kills: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.file_kills --count $(or $(COUNT),500)

code-kills: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.code_kills --count $(or $(COUNT),1000) --seed $(or $(SEED),1)

code-upgrade: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.code_upgrade

code-bench: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.code

browser-bench: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.browser --rounds $(or $(ROUNDS),5)

browser-tasks: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.browser_tasks $(if $(PEERS),--peers "$(PEERS)") --only "$(ONLY)"

plugin-bench: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.plugins --calls $(or $(CALLS),1000)

edits: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.edit_campaign --count $(or $(COUNT),5000) --seed $(or $(SEED),0)

globs: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.glob_campaign --count $(or $(COUNT),5000) --seed $(or $(SEED),0)

writers: $(VENV)/dev.stamp
	$(BIN)/python -m tests.torture.writers

stops: $(VENV)/dev.stamp
	$(BIN)/python -m tests.torture.stop_campaign

json-stops: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.json_stops --count $(or $(COUNT),2000) --seed $(or $(SEED),0)

paths: $(VENV)/dev.stamp
	$(BIN)/python -m tests.attack.path_verdicts --count $(or $(COUNT),10000) --seed $(or $(SEED),1)

races: $(VENV)/dev.stamp
	$(BIN)/python -m tests.attack.path_races --seconds $(or $(SECONDS),60)

ways: $(VENV)/dev.stamp
	$(BIN)/python -m tests.attack.four_ways

escapes: $(VENV)/dev.stamp
	HERMES_ESCAPES=1 $(BIN)/python -m pytest -n 2 tests/attack/test_escapes.py tests/plugin_host/test_hostile_plugins.py

sign-ins: $(VENV)/dev.stamp
	SIGN_IN_PROCESSES=50 $(BIN)/python -m pytest -n 2 tests/oauth

backends: $(VENV)/dev.stamp
	HERMES_BACKENDS=1 $(BIN)/python -m pytest -n 2 -rs tests/execution/test_backends.py tests/execution/test_ssh.py tests/torture/test_remote_backends.py

bench: $(VENV)/dev.stamp
	$(BIN)/python -m bench

load: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.gateway_load --rate 20 $(if $(PEER),--peer $(PEER))

tools: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.tools

many: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.many

recall: $(VENV)/dev.stamp
	@$(BIN)/python -m bench.recall --misses

talk: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.torture.long_talk --url "$(URL)"

# A stamp stands for a complete step: a set-up that was broken off is done again from where it stopped.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Hermes needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/run.stamp: requirements/run.txt requirements/model.txt pyproject.toml | $(VENV)/bin/python
	@echo "Setting up Hermes (a minute at most, once) ..."
	@$(PIP) --only-binary :all: -r requirements/run.txt -r requirements/model.txt
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/run.stamp
	@echo "Setting up the tools for tests ..."
	@$(PIP) --only-binary :all: --no-binary forbiddenfruit -r requirements/dev.txt
	@touch $@

cron-fields: $(VENV)/dev.stamp
	$(BIN)/python -m tests.cron.cron_fields --count $(or $(COUNT),5000) --seed $(or $(SEED),1)

cron-year: $(VENV)/dev.stamp
	@PYTHONPATH=. $(BIN)/python -m tests.cron.fake_year $(or $(DAYS),366) $(or $(SEED),1)

ends: $(VENV)/dev.stamp
	@PYTHONPATH=. $(BIN)/python -m tests.ends.run

acp: $(VENV)/dev.stamp
	@PYTHONPATH=. $(BIN)/python -m tests.ends.acp_run --kills $(or $(KILLS),100)

wheel: $(VENV)/dev.stamp
	@$(BIN)/python -m scripts.install_check --build

install-check: $(VENV)/dev.stamp
	@$(BIN)/python -m scripts.install_check --only "$(ONLY)" $(if $(WITH),--python "$(WITH)")

image: $(VENV)/dev.stamp
	@$(BIN)/python -m scripts.image_check $(IMAGE_OPTIONS)

units: $(VENV)/dev.stamp
	@$(BIN)/python -m scripts.units_check

mcp-conformance: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.mcp.conformance --folder "$(or $(FOLDER),/tmp/hermes-mcp)"

mcp-servers: $(VENV)/dev.stamp
	@$(BIN)/python -m tests.mcp.official_servers --folder "$(or $(FOLDER),/tmp/hermes-mcp)"

release-notes:
	@$(PYTHON) scripts/release_notes.py "$(or $(VERSION),Unreleased)"

screens: $(VENV)/dev.stamp
	@$(BIN)/python -c "import cairosvg" 2>/dev/null || $(BIN)/python -m pip --disable-pip-version-check install --quiet cairosvg
	@$(BIN)/python scripts/screens.py

lock:
	UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet --extra local --extra gateway requirements/build.in pyproject.toml -o requirements/run.txt
	UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet --no-deps requirements/model.in -o requirements/model.txt
	UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet --group dev -c requirements/run.txt -o requirements/dev.txt

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
