"""`python -m anabranch` is the command `anabranch`."""

from anabranch.cli.main import main

if __name__ == "__main__":
    main()
