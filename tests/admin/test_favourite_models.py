"""The favourites among models: marked, in order, and gone through one after the other."""

from hermes.admin.models.favourites import FavouriteModels
from hermes.config.home import locate_home
from hermes.testing.home import TempHome


def test_favourites_are_kept_in_order_and_cycled() -> None:
    with TempHome() as home:
        favourites = FavouriteModels(locate_home(home.environ))
        assert favourites.find_next("a", "one") is None
        for name in ("one", "two", "three"):
            assert favourites.toggle_model("a", name)
        assert favourites.find_next("a", "one") == ("a", "two")
        assert favourites.find_next("a", "three") == ("a", "one")
        assert favourites.find_next("b", "other") == ("a", "one")
        assert not favourites.toggle_model("a", "two")
        again = FavouriteModels(locate_home(home.environ))
        assert again.list_all() == [("a", "one"), ("a", "three")]


def test_a_broken_file_counts_as_empty() -> None:
    with TempHome() as home:
        found = locate_home(home.environ)
        found.ensure_exists()
        found.favourites_file.write_text("{")
        assert FavouriteModels(found).list_all() == []
