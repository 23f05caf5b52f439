"""Files, pictures and recordings, both ways."""

import json

from tests.torture.family.world import ANNA, D_OWNER, OWNER, PATIENCE, Step, World, hold, order

PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    b"\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"
)


def _workspace(world: World, name: str, content: bytes) -> str:
    path = world.home.hermes / "workspace" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return str(path)


async def _in(world: World) -> None:
    await world.tell("keep this", "heard", files=[world.file("notes.txt")])
    text = world.server.requests[-1].last_user_text
    kept = world.home.hermes / "media" / "telegram"
    found = [one for one in kept.rglob("*") if one.is_file() and one.read_bytes() == b"the balcony needs water"]
    hold(found and str(found[0]) in text, f"{text!r}, {found}")
    told = await world.tell(order("read_file", path=str(found[0])), "balcony")
    hold("the balcony needs water" in told, told)


async def _in_of_a_user(world: World) -> None:
    await world.tell("mine", "heard", person=ANNA, files=[world.file("figs.txt", b"figs and plums")])
    files = [one for one in (world.home.hermes / "people").rglob("*") if one.is_file()]
    kept = [one for one in files if one.read_bytes() == b"figs and plums"]
    hold(kept and "received" in kept[0].parts, str(files))


async def _picture(world: World) -> None:
    await world.tell("look", "and a picture", files=[world.file("cat.png", PNG)])


async def _album(world: World) -> None:
    requests = len(world.server.requests)
    await world.tell("two of them", "heard", files=[world.file("a.png", PNG), world.file("b.png", PNG)])
    hold(len(world.server.requests) == requests + 1, "an album became several turns")
    hold(json.dumps(world.server.requests[-1].messages[-1]).count('"image_url"') >= 2, "a picture is missing")


async def _voice(world: World) -> None:
    await world.tell("", "cannot hear recordings", files=[world.file("note.ogg", b"OggS" + bytes(60))])
    await world.asked("Nothing here can hear it")
    kept = [
        one for one in (world.home.hermes / "media").rglob("*") if one.is_file() and one.read_bytes()[:4] == b"OggS"
    ]
    hold(kept, "it was not kept")


async def _out(world: World) -> None:
    path = _workspace(world, "plan.txt", b"the plan")
    shown = await world.tell(f"SAY: Here it is.\nSAY: MEDIA:{path}", "Here it is.")
    await world.until(lambda: any(one.files for one in world.telegram.shown(OWNER)), "no file came")
    (file,) = [one.files[0] for one in world.telegram.shown(OWNER) if one.files][-1:]
    hold((file.name, file.content) == ("plan.txt", b"the plan"), str(file))
    hold("MEDIA" not in shown, shown)


async def _out_with_blanks(world: World) -> None:
    path = _workspace(world, "our plan.txt", b"the better plan")
    await world.tell(f'SAY: And this.\nSAY: MEDIA:"{path}"', "And this.")
    await world.until(
        lambda: any(f.content == b"the better plan" for one in world.telegram.shown(OWNER) for f in one.files),
        "no file",
    )


async def _picture_out(world: World) -> None:
    path = _workspace(world, "garden.png", PNG)
    await world.tell(f"SAY: The garden:\nSAY: {path}", "The garden:")
    await world.until(
        lambda: any(f.name == "garden.png" for one in world.telegram.shown(OWNER) for f in one.files), "no picture came"
    )
    hold(world.judge.judged["sendphoto"], "it was not sent as a picture")


async def _not_outside(world: World) -> None:
    before = sum(len(one.files) for one in world.telegram.shown(OWNER))
    await world.tell("SAY: Secrets:\nSAY: MEDIA:/etc/passwd", "Secrets:")
    await world.tell("/whoami", "every command")
    hold(sum(len(one.files) for one in world.telegram.shown(OWNER)) == before, "a file of the machine was sent")


async def _not_the_owners(world: World) -> None:
    path = _workspace(world, "plan.txt", b"the plan")
    await world.tell(f"SAY: Yours:\nSAY: MEDIA:{path}", "Yours:", person=ANNA)
    await world.tell("/whoami", person=ANNA)
    hold(not any(one.files for one in world.telegram.shown(ANNA)), "a user got the owner's file")


async def _discord_in(world: World) -> None:
    await world.write(D_OWNER, "keep this", "heard", files=[world.file("list.txt", b"milk")])
    kept = [one for one in (world.home.hermes / "media" / "discord").rglob("*") if one.is_file()]
    hold(any(one.read_bytes() == b"milk" for one in kept), str(kept))


async def _discord_out(world: World) -> None:
    path = _workspace(world, "recipe.txt", b"figs, honey")
    client = world.people[D_OWNER]
    await world.write(D_OWNER, f"SAY: The recipe.\nSAY: MEDIA:{path}", "The recipe.")
    await client.until(lambda: any(one.attachments for one in client.said()), PATIENCE)
    attached = [one.attachments[0] for one in client.said() if one.attachments][-1]
    hold(attached.filename == "recipe.txt" and await attached.read() == b"figs, honey", str(attached))


async def _discord_picture(world: World) -> None:
    await world.write(D_OWNER, "look here", "and a picture", files=[world.file("dog.png", PNG)])


async def _long(world: World) -> None:
    text = " ".join(f"word{number}" for number in range(900))
    await world.tell(f"SAY: {text}", "word899")
    sizes = [len(one.text.encode("utf-16-le")) // 2 for one in world.telegram.shown(OWNER)]
    hold(max(sizes) <= 4096, str(max(sizes)))


async def _long_on_discord(world: World) -> None:
    text = " ".join(f"word{number}" for number in range(180))
    found = await world.write(D_OWNER, f"SAY: {text}", "word179")
    hold(all(len(one.content) <= 2000 for one in found), "a message is too long")


async def _marks(world: World) -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 |"
    lines = [
        "SAY: **bold** and `code` and [a link](https://example.org/x) 😀 *done*",
        *(f"SAY: {one}" for one in table.split("\n")),
    ]
    shown = await world.tell("\n".join(lines), "bold and code and a link 😀 done")
    hold("**" not in shown and "|---" not in shown, shown)
    kinds = {one.type.value if hasattr(one.type, "value") else one.type for one in world.judge.messages[-1].entities}
    hold({"bold", "code", "pre"} <= {str(one) for one in kinds}, str(kinds))


STEPS = (
    Step(
        "people.md#what-each-person-has-of-their-own",
        "the owner sends a file",
        "in media/telegram, and its path is said",
        _in,
    ),
    Step(
        "people.md#what-each-person-has-of-their-own",
        "a user sends a file",
        "in `received` of their own folder",
        _in_of_a_user,
    ),
    Step("telegram.md#what-it-does", "a photo", "the model sees it", _picture),
    Step("telegram.md#what-it-does", "an album of two", "both, in one turn", _album),
    Step("gateway.md#in-a-chat", "a voice message", "kept; both are told that it cannot be heard", _voice),
    Step("gateway.md#in-a-chat", "an answer with a MEDIA: line", "the file is sent, the line is not shown", _out),
    Step("gateway.md#in-a-chat", "a name with blanks, in quotes", "the file is sent", _out_with_blanks),
    Step("gateway.md#in-a-chat", "the path of a picture on a line of its own", "sent as a picture", _picture_out),
    Step("gateway.md#in-a-chat", "MEDIA:/etc/passwd", "only from the working and the media folder", _not_outside),
    Step(
        "people.md#what-each-person-has-of-their-own",
        "the owner's file in a user's chat",
        "only from their folder",
        _not_the_owners,
    ),
    Step("discord.md#what-it-does", "discord.py sends a file", "kept in media/discord", _discord_in),
    Step("discord.md#what-it-does", "a MEDIA: line on Discord", "discord.py downloads the file", _discord_out),
    Step("discord.md#what-it-does", "discord.py sends a picture", "the model sees it", _discord_picture),
    Step("telegram.md#what-it-does", "a long answer", "at most 4,096 units a message, all of it", _long),
    Step("discord.md#what-it-does", "a long answer", "at most 2,000 characters a message", _long_on_discord),
    Step(
        "telegram.md#what-it-does", "bold, code, a link, a table", "marks beside the text; a fixed-width table", _marks
    ),
)
