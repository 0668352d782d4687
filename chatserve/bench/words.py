"""Words that are one token with a leading space in byte-level BPEs like SmolLM's and GPT-2's.

So lengths in words are lengths in tokens.
"""

from __future__ import annotations

from typing import Final

_TEXT: Final = """
time year people way day man thing woman life child world school state family student group country problem hand part
place case week company system program question work government number night point home water room mother area money
story fact month lot right study book eye job word business issue side kind head house service friend father power hour
game line end member law car city community name president team minute idea body information back parent face others
level office door health person art war history party result change morning reason research girl guy moment air teacher
force education foot boy age policy music market sense nation plan college interest death experience effect use class
control care field development role effort rate heart drug show leader light voice wife police mind price report
decision son view relationship town road arm difference value building action season society tax director position
player record paper space ground form event official matter center couple site project activity star table need court
oil situation cost industry figure street image phone data picture practice piece land product doctor wall patient
worker news test movie north love support technology step baby computer type attention film tree source organization
hair look window culture chance brother energy period course summer plant opportunity term letter condition choice rule
daughter south husband floor campaign material population economy hospital church risk fire future bank west sport board
subject officer rest behavior performance top goal second bed order author blood agency nature color store sound
movement page race concern series language response animal factor decade article east artist scene stock career
treatment approach size dog fund media sign thought list individual quality pressure answer resource meeting disease
success cup amount ability staff character growth loss degree attack region television box training trade deal election
feeling standard bill message analysis benefit sex forward lawyer section glass skill sister professor operation crime
stage authority design sort knowledge gun station strategy truth song example environment leg dark rock claim manager
network fish unit simple clear large small early young important public bad same able good new first last long great
little own other old big high different next few local sure free better true whole strong possible real open close hard
low late general full special easy recent wrong certain personal red short single medical current ready foreign common
poor natural significant similar hot dead central happy serious blue green white black make know take see come think
find give tell become leave feel put bring begin keep hold write stand hear let mean set meet run pay sit speak lie lead
read grow lose fall send build understand draw break spend cut rise drive buy wear choose
"""
WORDS: Final = tuple(_TEXT.split())
