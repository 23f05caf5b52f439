"""How each task is done with Playwright's MCP server.

Its actions name a file with a snapshot: a snapshot is asked for where the model needs to see something, and on long
pages `browser_find` is used, which its own description calls the cheaper way.
"""

from bench.browser_tasks.programs import PlaywrightProgram
from bench.browser_tasks.site import PASSWORD


async def click(p: PlaywrightProgram, label: str, after: str = "") -> str:
    return await p.call("click", target=p.ref(label, after))


async def type_text(p: PlaywrightProgram, label: str, text: str) -> str:
    return await p.call("type", target=p.ref(label), text=text)


async def select(p: PlaywrightProgram, label: str, option: str) -> str:
    return await p.call("select_option", target=p.ref(label), values=[option])


async def look(p: PlaywrightProgram) -> str:
    return await p.call("snapshot")


async def form(p: PlaywrightProgram) -> None:
    await look(p)
    fields = [
        {"name": "User name", "type": "textbox", "target": p.ref('textbox "User name"'), "value": "ann"},
        {"name": "E-mail", "type": "textbox", "target": p.ref('textbox "E-mail"'), "value": "ann@example.org"},
        {"name": "Country", "type": "combobox", "target": p.ref('combobox "Country"'), "value": "Ireland"},
        {"name": "Every month", "type": "radio", "target": p.ref('radio "Every month"'), "value": "true"},
        {"name": "About you", "type": "textbox", "target": p.ref('textbox "About you"'), "value": "I bake."},
        {"name": "Terms", "type": "checkbox", "target": p.ref('checkbox "I accept'), "value": "true"},
    ]
    await p.call("fill_form", fields=fields)
    await click(p, 'button "Create account"')
    await look(p)
    p.see("This user name is taken")
    await type_text(p, 'textbox "User name"', "ann.lee")
    await click(p, 'button "Create account"')
    await look(p)
    p.see("Welcome, ann.lee!")


async def table(p: PlaywrightProgram) -> None:
    await look(p)
    await click(p, 'button "Total"')
    await click(p, 'button "Total"')
    await p.call("find", text="Marta Novak")
    await click(p, 'button "Next page"')
    await p.call("find", text="Marta Novak")
    row = p.find_in(p.last, r'row \[ref=(\w+)\]:\s+- cell "#2317"')
    await p.call("snapshot", target=row)  # the button is beyond the lines that are shown
    await click(p, 'button "Refund"', after="#2317")
    await p.call("find", text="refunded")
    p.see("Order #2317 is refunded.")


async def feed(p: PlaywrightProgram) -> None:
    await look(p)
    while "Lost umbrella" not in p.last:
        await p.call("evaluate", function="() => window.scrollTo(0, document.body.scrollHeight)")
        await p.call("find", text="umbrella")
    await click(p, 'button "Like"', after="Lost umbrella")
    await p.call("find", text="Liked")
    p.see('button "Liked"')


async def frames(p: PlaywrightProgram) -> None:
    await look(p)
    await type_text(p, 'textbox "Street"', "5 Mill Lane")
    await type_text(p, 'textbox "Town"', "York")
    await click(p, 'button "Save address"')
    await type_text(p, 'textbox "Name on card"', "Ann Lee")
    await type_text(p, 'textbox "Voucher code"', "SPRING")
    await click(p, 'button "Pay now"')
    await look(p)
    p.see("Order 5512 is paid.")


async def shadow(p: PlaywrightProgram) -> None:
    await look(p)
    await click(p, 'button "One more of Tea tins"')
    await click(p, 'button "One more of Tea tins"')
    await click(p, 'button "One more of Jam jars"')
    await type_text(p, 'textbox "Words on the card"', "For Joe")
    await click(p, 'button "Add to basket"')
    await look(p)
    p.see("The box is in your basket.")


async def dialogs(p: PlaywrightProgram) -> None:
    await look(p)
    await click(p, 'button "Delete"', after="Kitchen")
    p.see("Delete the list Kitchen?")
    await p.call("handle_dialog", accept=True)
    await click(p, 'button "Rename"', after="Garden")
    await p.call("handle_dialog", accept=True, promptText="Roses")
    p.see("The list is now called Roses.")
    await p.call("handle_dialog", accept=True)
    await look(p)
    p.see("Renamed to Roses.")


async def drag(p: PlaywrightProgram) -> None:
    await look(p)
    start = p.find_in(p.view, r"\[ref=(\w+)\]: Write report")
    await p.call("drag", startTarget=start, endTarget=p.find_in(p.view, r"\[ref=(\w+)\]: Drop finished"))
    study, hall = (p.find_in(p.view, rf"\[ref=(\w+)\]: {name}") for name in ("Study", "Hall"))
    await p.call("drag", startTarget=study, endTarget=hall)
    await look(p)
    p.see("Moved room Study before Hall.")


async def upload(p: PlaywrightProgram) -> None:
    await look(p)
    await type_text(p, 'textbox "What is broken?"', "Kitchen tap")
    await click(p, 'button "Attachment"')
    await p.call("file_upload", paths=[p.file])
    await click(p, 'button "Send report"')
    await look(p)
    p.see("report no. 771")


async def signin(p: PlaywrightProgram) -> None:
    await look(p)
    await type_text(p, 'textbox "E-mail"', "ann@example.org")
    await p.call("type", target=p.ref('textbox "Password"'), text=PASSWORD, submit=True)
    await look(p)
    p.see("Hello, Ann Lee")
    await click(p, 'button "Turn points into a voucher"')
    await look(p)
    p.see("MF-7742-QX")


async def cover(p: PlaywrightProgram) -> None:
    await look(p)
    await click(p, 'button "Only what is needed"')
    await click(p, 'button "Add to basket"')
    await look(p)
    p.see("One enamel jug is in your basket.")


async def tabs(p: PlaywrightProgram) -> None:
    await look(p)
    code = p.ref('textbox "Code on the voucher"')
    confirm = p.ref('button "Confirm booking"')
    await click(p, 'link "Open the voucher"')
    await p.call("tabs", action="select", index=1)
    await look(p)
    p.see("HERON-58")
    await p.call("tabs", action="close", index=1)
    await p.call("type", target=code, text="HERON-58")
    await p.call("click", target=confirm)
    await look(p)
    p.see("Booking L-204 is confirmed.")


async def booking(p: PlaywrightProgram) -> None:
    await look(p)
    await click(p, 'combobox "Time')
    await look(p)
    await click(p, 'option "19:30"')
    await type_text(p, 'textbox "Date"', "2027-02-14")
    await type_text(p, 'spinbutton "People"', "4")
    await click(p, 'button "Book"')
    await look(p)
    p.see("A table for 4 on 2027-02-14 at 19:30 is booked.")


async def suggest(p: PlaywrightProgram) -> None:
    await look(p)
    await type_text(p, 'combobox "From"', "Newcastle")
    await look(p)
    await click(p, 'option "Newcastle"')
    await type_text(p, 'combobox "To"', "London Kings")
    await look(p)
    await click(p, 'option "London Kings Cross"')
    await click(p, 'button "Find trains"')
    await look(p)
    p.see("14 trains from Newcastle to London Kings Cross")


async def tree(p: PlaywrightProgram) -> None:
    await look(p)
    await click(p, 'button "Can I pay by invoice?"')
    await click(p, 'treeitem "Payment"')
    await look(p)
    p.see("INV-30")
    await click(p, 'treeitem "Vouchers"')
    await look(p)
    await click(p, 'treeitem "Gift cards"')
    await look(p)
    p.see("Topic chosen: Gift cards")


async def toast(p: PlaywrightProgram) -> None:
    await look(p)
    await type_text(p, 'textbox "Name on parcels"', "Ann Lee")
    await click(p, 'button "Save"')
    told = await look(p)
    await type_text(p, 'textbox "Number of the change"', p.find_in(told, r"(CH-\d+)"))
    await click(p, 'button "Check the number"')
    await look(p)
    p.see("The change is confirmed.")


async def delayed(p: PlaywrightProgram) -> None:
    await look(p)
    await click(p, 'button "Get a quote"')
    await look(p)
    p.see("Asking four firms…")
    await p.call("wait_for", textGone="Asking four firms…")
    await look(p)
    await click(p, 'button "Choose"', after="Two Vans")
    await look(p)
    p.see("You have chosen Two Vans.")


async def search(p: PlaywrightProgram) -> None:
    await look(p)
    await select(p, 'combobox "At most"', "60.00")
    await p.call("type", target=p.ref('searchbox "Look for"'), text="glass kettle", submit=True)
    await look(p)
    await click(p, 'button "Add to basket"', after="Elgar glass kettle")
    await p.call("find", text="in your basket")
    p.see("Elgar glass kettle is in your basket.")


async def checkout(p: PlaywrightProgram) -> None:
    await look(p)
    fields = [
        {"name": "Full name", "type": "textbox", "target": p.ref('textbox "Full name"'), "value": "Ann Lee"},
        {"name": "Street", "type": "textbox", "target": p.ref('textbox "Street"'), "value": "5 Mill Lane"},
        {"name": "Post code", "type": "textbox", "target": p.ref('textbox "Post code"'), "value": "YO1 6AB"},
        {"name": "Delivery", "type": "combobox", "target": p.ref('combobox "Delivery"'), "value": "Next day, 7.50"},
    ]
    await p.call("fill_form", fields=fields)
    await click(p, 'button "Continue to payment"')
    await look(p)
    fields = [
        {"name": "Invoice", "type": "radio", "target": p.ref('radio "Invoice"'), "value": "true"},
        {"name": "Reference", "type": "textbox", "target": p.ref('textbox "Order reference"'), "value": "A-17"},
        {"name": "Gift", "type": "checkbox", "target": p.ref('checkbox "Wrap as a gift"'), "value": "true"},
    ]
    await p.call("fill_form", fields=fields)
    await click(p, 'button "Continue to review"')
    await look(p)
    p.see("To: Ann Lee, 5 Mill Lane, YO1 6AB, Next day")
    await click(p, 'checkbox "I have read the terms of sale"')
    await click(p, 'button "Place order"')
    await look(p)
    p.see("Your order number is 90417.")


async def editor(p: PlaywrightProgram) -> None:
    await look(p)
    await type_text(p, 'textbox "Title"', "Canal walks")
    await type_text(p, 'textbox "Article"', "Bring boots and water.")
    await p.call("press_key", key="Control+a")
    await click(p, 'button "Bold"')
    await click(p, 'button "Publish"')
    await look(p)
    p.see("Published as article 318.")


async def menu(p: PlaywrightProgram) -> None:
    await look(p)
    await p.call("press_key", key="Alt+m")
    await look(p)
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        await p.call("press_key", key=key)
    await look(p)
    p.see("As plain text")
    for key in ("ArrowDown", "Enter"):
        await p.call("press_key", key=key)
    await look(p)
    p.see("Done: As plain text")
