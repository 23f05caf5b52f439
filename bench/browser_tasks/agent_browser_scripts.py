"""How each task is done with agent-browser's commands, as the guide that it gives to models says.

`snapshot -i` shows what can be used, which the guide prefers; `get text main` what a page says, where that is needed.
"""

from bench.browser_tasks.programs import AgentBrowserProgram
from bench.browser_tasks.site import PASSWORD


async def click(p: AgentBrowserProgram, label: str, after: str = "") -> str:
    return await p.call("click", p.ref(label, after))


async def fill(p: AgentBrowserProgram, label: str, text: str) -> str:
    return await p.call("fill", p.ref(label), text)


async def look(p: AgentBrowserProgram) -> str:
    return await p.call("snapshot", "-i")


async def read(p: AgentBrowserProgram) -> str:
    return await p.call("get", "text", "main")


async def form(p: AgentBrowserProgram) -> None:
    await look(p)
    await fill(p, 'textbox "User name"', "ann")
    await fill(p, 'textbox "E-mail"', "ann@example.org")
    await p.call("select", p.ref('combobox "Country"'), "Ireland")
    await p.call("check", p.ref('radio "Every month"'))
    await fill(p, 'textbox "About you"', "I bake.")
    await p.call("check", p.ref('checkbox "I accept the terms"'))
    await click(p, 'button "Create account"')
    await read(p)
    p.see("This user name is taken")
    await fill(p, 'textbox "User name"', "ann.lee")
    await click(p, 'button "Create account"')
    await read(p)
    p.see("Welcome, ann.lee!")


async def table(p: AgentBrowserProgram) -> None:
    await look(p)
    await click(p, 'button "Total"')
    await click(p, 'button "Total"')
    await p.call("get", "text", "table")
    await p.call("scrollintoview", p.ref('button "Next page"'))  # a click out of view hits nothing
    await click(p, 'button "Next page"')
    await p.call("get", "text", "table")
    p.see("#2317\tMarta Novak")
    button = "xpath=//tr[contains(., '#2317')]//button"
    await p.call("scrollintoview", button)
    await p.call("click", button)
    await read(p)
    p.see("Order #2317 is refunded.")


async def feed(p: AgentBrowserProgram) -> None:
    await look(p)
    while "Lost umbrella" not in p.last:
        await p.call("scroll", "down", "5000")
        await p.call("eval", "document.querySelector('main').innerText.match(/.*umbrella.*/)?.[0]")
    await look(p)
    like = p.ref('button "Like"', after="Lost umbrella")
    await p.call("scrollintoview", like)
    await p.call("click", like)
    await p.call("get", "text", like)
    p.see("Liked")


async def frames(p: AgentBrowserProgram) -> None:
    await look(p)
    await fill(p, 'textbox "Street"', "5 Mill Lane")
    await fill(p, 'textbox "Town"', "York")
    await click(p, 'button "Save address"')
    await fill(p, 'textbox "Name on card"', "Ann Lee")
    await fill(p, 'textbox "Voucher code"', "SPRING")
    await click(p, 'button "Pay now"')
    await read(p)
    p.see("Order 5512 is paid.")


async def shadow(p: AgentBrowserProgram) -> None:
    await look(p)
    await click(p, 'button "One more of Tea tins"')
    await click(p, 'button "One more of Tea tins"')
    await click(p, 'button "One more of Jam jars"')
    await fill(p, 'textbox "Words on the card"', "For Joe")
    await click(p, 'button "Add to basket"')
    await read(p)
    p.see("The box is in your basket.")


async def dialogs(p: AgentBrowserProgram) -> None:
    await p.call("snapshot")  # the names of the lists are no elements
    await click(p, 'button "Delete"', after="Kitchen")
    await p.call("dialog", "accept")
    await click(p, 'button "Rename"', after="Garden")
    await p.call("dialog", "accept", "Roses")
    await read(p)
    p.see("Renamed to Roses.")


async def drag(p: AgentBrowserProgram) -> None:
    await p.call("snapshot")
    await p.call("drag", "xpath=//div[text()='Write report']", p.ref('region "Done"'))
    await p.call("drag", "xpath=//div[text()='Study']", "xpath=//div[text()='Hall']")
    await read(p)
    p.see("Moved room Study before Hall.")


async def upload(p: AgentBrowserProgram) -> None:
    await look(p)
    await fill(p, 'textbox "What is broken?"', "Kitchen tap")
    await p.call("upload", p.ref('button "Attachment"'), p.file)
    await click(p, 'button "Send report"')
    await read(p)
    p.see("report no. 771")


async def signin(p: AgentBrowserProgram) -> None:
    await look(p)
    await fill(p, 'textbox "E-mail"', "ann@example.org")
    await fill(p, 'textbox "Password"', PASSWORD)
    await click(p, 'button "Sign in"')
    await look(p)
    p.see("Hello, Ann Lee")
    await click(p, 'button "Turn points into a voucher"')
    await read(p)
    p.see("MF-7742-QX")


async def cover(p: AgentBrowserProgram) -> None:
    await look(p)
    await click(p, 'button "Only what is needed"')
    await click(p, 'button "Add to basket"')
    await read(p)
    p.see("One enamel jug is in your basket.")


async def tabs(p: AgentBrowserProgram) -> None:
    await look(p)
    code, confirm = p.ref('textbox "Code on the voucher"'), p.ref('button "Confirm booking"')
    await click(p, 'link "Open the voucher"')
    await p.call("tab")
    await p.call("tab", p.find_in(p.last, r"\b(t\d+)\b[^\n]*[Vv]oucher"))
    await read(p)
    p.see("HERON-58")
    await p.call("tab", "close")
    await look(p)
    code, confirm = p.ref('textbox "Code on the voucher"'), p.ref('button "Confirm booking"')
    await p.call("fill", code, "HERON-58")
    await p.call("click", confirm)
    await read(p)
    p.see("Booking L-204 is confirmed.")


async def booking(p: AgentBrowserProgram) -> None:
    await look(p)
    await click(p, 'combobox "Time')
    await look(p)
    await p.call("scrollintoview", p.ref('option "19:30"'))
    await click(p, 'option "19:30"')
    await look(p)
    await click(p, 'spinbutton "Month')
    await p.call("keyboard", "type", "02142027")  # `fill` leaves a date field empty
    await fill(p, 'spinbutton "People"', "4")
    await click(p, 'button "Book"')
    await read(p)
    p.see("A table for 4 on 2027-02-14 at 19:30 is booked.")


async def suggest(p: AgentBrowserProgram) -> None:
    await look(p)
    await fill(p, 'combobox "From"', "Newcastle")
    await look(p)
    await click(p, 'option "Newcastle"')
    await fill(p, 'combobox "To"', "London Kings")
    await look(p)
    await click(p, 'option "London Kings Cross"')
    await click(p, 'button "Find trains"')
    await read(p)
    p.see("14 trains from Newcastle to London Kings Cross")


async def tree(p: AgentBrowserProgram) -> None:
    await look(p)
    await click(p, 'button "Can I pay by invoice?"')
    await click(p, 'treeitem "Payment"')
    await look(p)
    await click(p, 'treeitem "Vouchers"')
    await look(p)
    await click(p, 'treeitem "Gift cards"')
    await read(p)
    p.see("INV-30")
    p.see("Topic chosen: Gift cards")


async def toast(p: AgentBrowserProgram) -> None:
    await look(p)
    await fill(p, 'textbox "Name on parcels"', "Ann Lee")
    await click(p, 'button "Save"')
    await read(p)
    await fill(p, 'textbox "Number of the change"', p.find_in(p.last, r"(CH-\d+)"))
    await click(p, 'button "Check the number"')
    await read(p)
    p.see("The change is confirmed.")


async def delayed(p: AgentBrowserProgram) -> None:
    await look(p)
    await click(p, 'button "Get a quote"')
    await read(p)
    p.see("Asking four firms…")
    await p.call("wait", "--fn", "!document.body.innerText.includes('Asking four firms')")
    await p.call("snapshot")
    await click(p, 'button "Choose"', after="Two Vans")
    await read(p)
    p.see("You have chosen Two Vans.")


async def search(p: AgentBrowserProgram) -> None:
    await look(p)
    await p.call("select", p.ref('combobox "At most"'), "60.00")
    await fill(p, 'searchbox "Look for"', "glass kettle")
    await p.call("press", "Enter")
    await p.call("snapshot")
    button = p.ref('button "Add to basket"', after="Elgar glass kettle")
    await p.call("scrollintoview", button)
    await p.call("click", button)
    await read(p)
    p.see("Elgar glass kettle is in your basket.")


async def checkout(p: AgentBrowserProgram) -> None:
    await look(p)
    await fill(p, 'textbox "Full name"', "Ann Lee")
    await fill(p, 'textbox "Street"', "5 Mill Lane")
    await fill(p, 'textbox "Post code"', "YO1 6AB")
    await p.call("select", p.ref('combobox "Delivery"'), "Next day, 7.50")
    await click(p, 'button "Continue to payment"')
    await look(p)
    await p.call("check", p.ref('radio "Invoice"'))
    await fill(p, 'textbox "Order reference"', "A-17")
    await p.call("check", p.ref('checkbox "Wrap as a gift"'))
    await click(p, 'button "Continue to review"')
    await read(p)
    p.see("To: Ann Lee, 5 Mill Lane, YO1 6AB, Next day")
    await look(p)
    await p.call("check", p.ref('checkbox "I have read the terms of sale"'))
    await click(p, 'button "Place order"')
    await read(p)
    p.see("Your order number is 90417.")


async def editor(p: AgentBrowserProgram) -> None:
    await look(p)
    await fill(p, 'textbox "Title"', "Canal walks")
    await click(p, 'textbox "Article"')
    await p.call("press", "Control+a")
    await p.call("keyboard", "type", "Bring boots and water.")
    await p.call("press", "Control+a")
    await click(p, 'button "Bold"')
    await click(p, 'button "Publish"')
    await read(p)
    p.see("Published as article 318.")


async def menu(p: AgentBrowserProgram) -> None:
    await p.call("snapshot")
    await p.call("press", "Alt+m")
    await look(p)
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        await p.call("press", key)
    await look(p)
    p.see("As plain text")
    for key in ("ArrowDown", "Enter"):
        await p.call("press", key)
    await read(p)
    p.see("Done: As plain text")
