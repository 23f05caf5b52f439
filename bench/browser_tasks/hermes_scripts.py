"""How each task is done with Hermes' tools. Refs are looked up in what was told."""

from bench.browser_tasks.programs import HermesProgram
from bench.browser_tasks.site import PASSWORD


async def click(p: HermesProgram, label: str, after: str = "") -> str:
    return await p.call("click", ref=p.ref(label, after))


async def type_text(p: HermesProgram, label: str, text: str) -> str:
    return await p.call("type", ref=p.ref(label), text=text)


async def form(p: HermesProgram) -> None:
    await type_text(p, 'textbox "User name"', "ann")
    await type_text(p, 'textbox "E-mail"', "ann@example.org")
    await p.call("select", ref=p.ref('combobox "Country"'), values=["Ireland"])
    await click(p, 'radio "Every month"')
    await type_text(p, 'textbox "About you"', "I bake.")
    await click(p, 'checkbox "I accept the terms"')
    await click(p, 'button "Create account"')
    p.see("This user name is taken")
    await type_text(p, 'textbox "User name"', "ann.lee")
    await click(p, 'button "Create account"')
    p.see("Welcome, ann.lee!")


async def table(p: HermesProgram) -> None:
    await click(p, 'button "Total"')
    await click(p, 'button "Total"')
    await click(p, 'button "Next page"')
    await click(p, 'button "Refund"', after="#2317 ")
    p.see("Order #2317 is refunded.")


async def feed(p: HermesProgram) -> None:
    await p.call("scroll", direction="down", until="umbrella")
    await click(p, 'button "Like"', after="Lost umbrella")
    p.see('button "Liked"')


async def frames(p: HermesProgram) -> None:
    await type_text(p, 'textbox "Street"', "5 Mill Lane")
    await type_text(p, 'textbox "Town"', "York")
    await click(p, 'button "Save address"')
    await type_text(p, 'textbox "Name on card"', "Ann Lee")
    await type_text(p, 'textbox "Voucher code"', "SPRING")
    await click(p, 'button "Pay now"')
    p.see("Order 5512 is paid.")


async def shadow(p: HermesProgram) -> None:
    await click(p, 'button "One more of Tea tins"')
    await click(p, 'button "One more of Tea tins"')
    await click(p, 'button "One more of Jam jars"')
    await type_text(p, 'textbox "Words on the card"', "For Joe")
    await click(p, 'button "Add to basket"')
    p.see("The box is in your basket.")


async def dialogs(p: HermesProgram) -> None:
    await click(p, 'button "Delete"', after="Kitchen")
    p.see("Delete the list Kitchen?")
    await p.call("dialog", action="accept")
    p.see("The list Kitchen is deleted.")
    await click(p, 'button "Rename"', after="- Garden")
    await p.call("dialog", action="accept", prompt_text="Roses")
    p.see("The list is now called Roses.")
    await p.call("dialog", action="accept")
    p.see("Renamed to Roses.")


async def drag(p: HermesProgram) -> None:
    await p.call("drag", ref=p.ref('draggable "Write report"'), to_ref=p.ref("Drop finished cards here"))
    p.see("Moved card Write report to Done.")
    await p.call("drag", ref=p.ref('draggable "Study"'), to_ref=p.ref('draggable "Hall"'))
    p.see("Moved room Study before Hall.")


async def upload(p: HermesProgram) -> None:
    await type_text(p, 'textbox "What is broken?"', "Kitchen tap")
    await p.call("upload", ref=p.ref('file input "Attachment"'), paths=[p.file])
    await click(p, 'button "Send report"')
    p.see("report no. 771")


async def signin(p: HermesProgram) -> None:
    await type_text(p, 'textbox "E-mail"', "ann@example.org")
    await p.call("type", ref=p.ref('textbox "Password"'), text=PASSWORD, submit=True)
    p.see("Hello, Ann Lee")
    await click(p, 'button "Turn points into a voucher"')
    p.see("MF-7742-QX")


async def cover(p: HermesProgram) -> None:
    await click(p, 'button "Only what is needed"')
    await click(p, 'button "Add to basket"')
    p.see("One enamel jug is in your basket.")


async def tabs(p: HermesProgram) -> None:
    told = await click(p, 'link "Open the voucher"')
    await p.call("tabs", action="switch", tab=int(p.find_in(told, r"tab (\d+)")))
    p.see("HERON-58")
    await p.call("tabs", action="close")
    await type_text(p, 'textbox "Code on the voucher"', "HERON-58")
    await click(p, 'button "Confirm booking"')
    p.see("Booking L-204 is confirmed.")


async def booking(p: HermesProgram) -> None:
    await click(p, 'combobox "Time')
    await click(p, 'option "19:30"')
    await type_text(p, 'date field "Date"', "2027-02-14")
    await type_text(p, 'spinbutton "People"', "4")
    await click(p, 'button "Book"')
    p.see("A table for 4 on 2027-02-14 at 19:30 is booked.")


async def suggest(p: HermesProgram) -> None:
    await type_text(p, 'combobox "From"', "Newcastle")
    await click(p, 'option "Newcastle"')
    await type_text(p, 'combobox "To"', "London Kings")
    await click(p, 'option "London Kings Cross"')
    await click(p, 'button "Find trains"')
    p.see("14 trains from Newcastle to London Kings Cross")


async def tree(p: HermesProgram) -> None:
    await click(p, 'button "Can I pay by invoice?"')
    p.see("INV-30")
    await click(p, 'treeitem "Payment"')
    await click(p, 'treeitem "Vouchers"')
    await click(p, 'treeitem "Gift cards"')
    p.see("Topic chosen: Gift cards")


async def toast(p: HermesProgram) -> None:
    await type_text(p, 'textbox "Name on parcels"', "Ann Lee")
    told = await click(p, 'button "Save"')
    await type_text(p, 'textbox "Number of the change"', p.find_in(told, r"(CH-\d+)"))
    await click(p, 'button "Check the number"')
    p.see("The change is confirmed.")


async def delayed(p: HermesProgram) -> None:
    await click(p, 'button "Get a quote"')
    p.see("Asking four firms…")
    await p.call("wait", gone="Asking four firms")
    await click(p, 'button "Choose"', after="Two Vans")
    p.see("You have chosen Two Vans.")


async def search(p: HermesProgram) -> None:
    await p.call("select", ref=p.ref('combobox "At most"'), values=["60.00"])
    await p.call("type", ref=p.ref('searchbox "Look for"'), text="glass kettle", submit=True)
    await click(p, 'button "Add to basket"', after="Elgar glass kettle")
    p.see("Elgar glass kettle is in your basket.")


async def checkout(p: HermesProgram) -> None:
    await type_text(p, 'textbox "Full name"', "Ann Lee")
    await type_text(p, 'textbox "Street"', "5 Mill Lane")
    await type_text(p, 'textbox "Post code"', "YO1 6AB")
    await p.call("select", ref=p.ref('combobox "Delivery"'), values=["Next day, 7.50"])
    await click(p, 'button "Continue to payment"')
    await click(p, 'radio "Invoice"')
    await type_text(p, 'textbox "Order reference"', "A-17")
    await click(p, 'checkbox "Wrap as a gift"')
    await click(p, 'button "Continue to review"')
    p.see("To: Ann Lee, 5 Mill Lane, YO1 6AB, Next day")
    await click(p, 'checkbox "I have read the terms of sale"')
    await click(p, 'button "Place order"')
    p.see("Your order number is 90417.")


async def editor(p: HermesProgram) -> None:
    await type_text(p, 'textbox "Title"', "Canal walks")
    await type_text(p, 'textbox "Article"', "Bring boots and water.")
    await p.call("press", key="Control+a")
    await click(p, 'button "Bold"')
    await click(p, 'button "Publish"')
    p.see("Published as article 318.")


async def menu(p: HermesProgram) -> None:
    for key in ("Alt+m", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowDown", "Enter"):
        await p.call("press", key=key)
    p.see("As plain text")
    p.see("Done: As plain text")
