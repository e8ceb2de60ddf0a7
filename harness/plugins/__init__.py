"""Plugins of a coding agent: folders with a manifest, skills and servers, and the marketplaces that offer them.

manifest      plugin.json as it is read
namespace     the plugin that a path belongs to
marketplace   marketplace.json: reading, resolving, discovering
entries       adding an entry to one
scaffold      new plugins
validation    what is wrong with a plugin's folder; skill_validation with its skills
names, members, faults   what they share
"""
