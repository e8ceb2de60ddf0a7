"""What a model is told beside the words of the user.

fragments      texts that are marked as not the user's, and are recognised again. Pure
mentions       `$skill` and `[@plugin](plugin://…)` in a prompt. Pure
instructions   AGENTS.md, of the user and of a folder
skills         skills below folders: found, chosen, read
"""
