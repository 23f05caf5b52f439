"""The tasks: what is asked, where it begins, and what the page reports at the end once it is done."""

from typing import NamedTuple


class Task(NamedTuple):
    """A task. `path` is the page where it begins, `proof` what the page has reported at the end."""

    path: str
    goal: str
    proof: str


TASKS = (
    Task(
        "form",
        "Open an account for ann (or ann.lee where that is taken), ann@example.org, in Ireland, with monthly news; "
        "about you: I bake. Accept the terms.",
        "ann.lee|ann@example.org|IE|monthly|I bake.",
    ),
    Task("table", "Refund the dearest order of Marta Novak.", "2317"),
    Task("feed", "Like the post about a lost umbrella.", "Lost umbrella at the station"),
    Task(
        "frames",
        "Deliver to 5 Mill Lane in York; pay in the name of Ann Lee with the voucher SPRING.",
        "5 Mill Lane, York|Ann Lee, SPRING",
    ),
    Task("shadow", "A box with two tea tins and a jam jar; on the card: For Joe.", "2|1|For Joe"),
    Task(
        "dialogs",
        "Delete the list Kitchen, and rename Garden to Roses.",
        "deleted Kitchen,renamed Roses,closed",
    ),
    Task(
        "drag",
        "Move the card Write report to Done, and Study before Hall in the list of rooms.",
        "card Write report to Done|room Study before Hall",
    ),
    Task("upload", "Report that the kitchen tap is broken, with note.txt.", "Kitchen tap|note.txt|The tap drips."),
    Task("signin", "Sign in as ann@example.org, and turn the points into a voucher.", "voucher|true"),
    Task("cover", "Put the jug into the basket, with no more cookies than needed.", "jug|Only what is needed"),
    Task("tabs", "Confirm the booking with the code on the voucher.", "confirmed"),
    Task("booking", "Book a table for four at 19:30 on 14 February 2027.", "19:30|2027-02-14|4"),
    Task("suggest", "Find trains from Newcastle to London Kings Cross.", "Newcastle|London Kings Cross"),
    Task("tree", "Choose the topic Gift cards; with the question of invoices open.", "Gift cards|3"),
    Task("toast", "Change the name on parcels to Ann Lee; confirm with the number of the change.", "Ann Lee|CH-4119"),
    Task("delayed", "Get a quote for the removal, and choose the cheapest firm.", "Two Vans"),
    Task(
        "search",
        "Put the best rated glass kettle for at most 60 into the basket.",
        "Elgar glass kettle",
    ),
    Task(
        "checkout",
        "Order to Ann Lee, 5 Mill Lane, YO1 6AB, next day; by invoice, reference A-17, as a gift.",
        "Ann Lee|5 Mill Lane|YO1 6AB|Next day, 7.50|invoice|A-17|on",
    ),
    Task(
        "editor",
        "Publish an article named Canal walks with the words: Bring boots and water. All of them bold.",
        "Canal walks|Bring boots and water.|Bring boots and water.",
    ),
    Task("menu", "Export the draft as plain text.", "As plain text"),
)
