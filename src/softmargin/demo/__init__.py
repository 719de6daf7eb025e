"""The demo: what β does to confidence, on real digits, in under a minute.

>>> from softmargin.demo import DemoSetting, run_demo
>>> outcomes = run_demo(DemoSetting(betas=[1.0], num_seeds=1, epochs=1))
>>> [outcome.configuration.label for outcome in outcomes]
['1', '0.01→1', '1 + T', 'calibrated']
"""

from softmargin.demo.run import Configuration, DemoSetting, Outcome, Run, run_demo

__all__ = ["Configuration", "DemoSetting", "Outcome", "Run", "run_demo"]
