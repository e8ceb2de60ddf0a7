"""Programs that use exec-server as its users do, by its public names alone.

demo          pipes, a terminal, a cut connection; what `make demo` runs
ci_runner     steps of a job, with time limits and the end of the log of one that fails
push_pull     a folder to another machine and back, without an event loop
agent_tools   unified exec as the tools of a language model, and the loop around them
"""
