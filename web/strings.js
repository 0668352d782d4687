// Every English word of the page.

/** @import { Stopped, Token } from "./types.js" */

/** @param {number} n @param {string} one @param {string} [many] */
const count = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

const digits = new Intl.NumberFormat("en");

/** @param {number} n */
export const number = (n) => digits.format(n);

/** @param {number} n bytes */
export function bytes(n) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let step = 0;
  for (; n >= 1000 && step < units.length - 1; step++) n /= 1024;
  return `${Number(step === 0 || n >= 100 ? Math.round(n) : n.toFixed(n >= 10 ? 1 : 2))} ${units[step]}`;
}

/** @param {number} ms */
export const seconds = (ms) => (ms < 995 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`);

/** @param {Token | null} token */
const quoted = (token) => (token === null ? "something else" : `“${token.text.replace(/\n/g, "⏎")}”`);

export const text = {
  // the frame
  skip: "Skip to the message field",
  home: "chatserve, start page",
  sideLabel: "Conversations",
  closeSide: "Close the list of conversations",
  openSide: "Open the list of conversations",
  newChat: "New conversation",
  searchLabel: "Search conversations",
  searchHint: "Search",
  importChat: "Import",
  shortcuts: "Shortcuts",
  settings: "Settings",
  memory: "Memory",
  moreActions: "More for this conversation",
  chatLabel: "Messages",
  memoryLabel: "Memory of the conversations",
  toBottom: "To the newest",
  close: "Close",
  cancel: "Cancel",
  untitled: "New conversation",

  // the empty page
  welcome: "What shall we talk about?",
  welcomeMore: "Everything said here stays in the server’s memory, so the next answer begins where the last one ended.",
  starters: ["Explain how a heat pump works", "Write a haiku about the sea", "Plan a week of simple dinners"],
  emptyChat: "Nothing has been said here yet.",

  context: (/** @type {number} */ used, /** @type {number | null} */ most) =>
    most ? `${number(used)} of ${number(most)} tokens` : count(used, "token"),

  // writing
  composerLabel: "Message",
  composerHint: "Write a message",
  send: "Send",
  stop: "Stop",
  stopping: "Stopping…",
  keysHint: "Enter sends, Shift + Enter makes a new line",
  tooLong: (/** @type {number} */ n, /** @type {number} */ most) =>
    `${number(n)} characters are more than the ${number(most)} that this server takes. Shorten the message.`,

  // a turn
  you: "You",
  assistant: "Answer",
  system: "System",
  copy: "Copy",
  copied: "Copied",
  copyAnswer: "Copy the answer",
  copyMessage: "Copy the message",
  copyCode: "Copy the code",
  code: "code",
  retry: "Answer again",
  edit: "Edit",
  editLabel: "Edit the message",
  editSend: "Send as a branch",
  previousBranch: "Previous version",
  nextBranch: "Next version",
  branch: (/** @type {number} */ at, /** @type {number} */ of) => `${at}/${of}`,
  branchLabel: (/** @type {number} */ at, /** @type {number} */ of) => `Version ${at} of ${of}`,
  thinking: "Thinking…",
  thought: "What it thought",
  waiting: "Waiting for the first word…",
  writing: (/** @type {number} */ tokens) => `Writing · ${count(tokens, "token")}`,
  wasCancelled: "Stopped here.",
  wasLength: "The answer reached its longest length. Raise “longest answer” in the settings, or ask to go on.",
  wasFailed: "The server stopped while it answered. What had arrived is kept.",
  copyFailed: "The browser did not let the page copy. Select the text instead.",

  // said aloud, and rarely
  saidAnswering: "Answering.",
  saidDone: (/** @type {number} */ words) => `The answer is complete: ${count(words, "word")}.`,
  saidStopped: "The answer was stopped.",
  saidBranch: (/** @type {number} */ at, /** @type {number} */ of) => `Version ${at} of ${of} is shown.`,

  // the connection
  connecting: "Connecting…",
  lost: (/** @type {number} */ s) => `The connection was lost. Trying again in ${s} s; the answer goes on at the server.`,
  elsewhere: "A client of the API is being answered in this conversation. The answer appears here when it is complete.",

  // what can go wrong, and what to do
  errorTitle: "That did not work.",
  tryAgain: "Try again",
  stopIt: "Stop that answer",
  offline: "The server cannot be reached. Is it running? Your message is kept.",
  notFound: "There is no such conversation. It may have been deleted, or belongs to another key.",
  toStart: "Start a new one",
  help: /** @type {Record<string, string>} */ ({
    turn_running: "Another answer is being written in this conversation, perhaps in another tab. Wait for it, or stop it.",
    conversation_busy: "Another answer is being written in this conversation. Wait for it, then try again.",
    session_busy: "Another answer is being written in this conversation. Wait for it, then try again.",
    context_length_exceeded: "The conversation is longer than the model can read. Go on from an earlier turn, or start a new conversation.",
    rate_limit_exceeded: "This key has used what it may use in a minute. Wait a little, then try again.",
    loading: "The model is still being loaded. Try again in a moment.",
    not_ready: "The model is still being loaded. Try again in a moment.",
    engine_died: "The engine stopped and is being started again. What was said is kept: try again in a moment.",
    engine_restarting: "The engine is being started again. What was said is kept: try again in a moment.",
    turn_not_saved: "The answer could not be saved. The server’s log says why; try again.",
    draining: "The server is being stopped. Try again when it is back.",
    store: "The place where conversations are kept cannot be reached. Try again in a moment.",
    internal_error: "The fault is the server’s. Trying again may help; its log says more.",
    429: "The server has as much to do as it takes on. Wait a moment, then try again.",
    503: "The server is starting or leaving. Try again in a moment.",
    413: "The message is too large for this server. Shorten it.",
  }),

  // the key
  keyTitle: "This server asks for a key",
  keyMore: "Whoever runs the server has given you one. It is sent in a header only, never in an address.",
  keyLabel: "API key",
  keyWrong: "That key is not known here.",
  keyKeep: "Remember it on this device",
  keyKeepMore: "Otherwise it is forgotten when this tab is closed.",
  keyUse: "Continue",
  keyForget: "Forget the key",

  // the list
  today: "Today",
  yesterday: "Yesterday",
  thisWeek: "This week",
  earlier: "Earlier",
  noChats: "No conversations yet. Whatever you write becomes the first.",
  noHits: (/** @type {string} */ words) => `Nothing was found for “${words}”.`,
  listFailed: "The list could not be loaded.",
  moreChats: "Show more",
  rowMenu: (/** @type {string} */ title) => `More for “${title}”`,
  running: "An answer is being written",
  rename: "Rename",
  renameLabel: "Title",
  exportMarkdown: "Export as Markdown",
  exportJson: "Export as JSON",
  remove: "Delete",
  removed: (/** @type {string} */ title) => `“${title}” was deleted.`,
  removedElsewhere: "This conversation was deleted.",
  undo: "Undo",
  imported: (/** @type {string} */ title) => `“${title}” was imported.`,
  importNotJson: "This file is not JSON. Choose a file that was exported as JSON.",

  // settings
  settingsHere: "For this conversation, from the next answer on.",
  settingsNew: "New conversations begin with these.",
  instructions: "System prompt",
  instructionsHint: "How the model is to answer, told before everything else",
  model: "Model",
  modelMore: (/** @type {string} */ name, /** @type {number | null} */ length) => (length ? `${name}, which reads ${number(length)} tokens at most` : name),
  sampling: "Sampling",
  asModel: (/** @type {unknown} */ value) => (value === null || value === undefined ? "the model’s own" : String(value)),
  temperature: "Temperature",
  temperatureMore: "0 always takes the likeliest word",
  top_p: "Top p",
  top_pMore: "only the likeliest words that sum up to this",
  top_k: "Top k",
  top_kMore: "only so many of the likeliest words",
  min_p: "Min p",
  min_pMore: "no word less likely than this share of the best",
  repetition_penalty: "Repetition penalty",
  presence_penalty: "Presence penalty",
  presence_penaltyMore: "above 0, words said before become less likely, once",
  frequency_penalty: "Frequency penalty",
  frequency_penaltyMore: "above 0, the less likely the more often they were said",
  repetition_penaltyMore: "above 1, words said before become less likely",
  max_output_tokens: "Longest answer",
  max_output_tokensMore: "in tokens",
  seed: "Seed",
  seedMore: "the same seed gives the same answer",
  reset: "Back to the model’s own",
  done: "Done",

  // shortcuts
  shortcutsTitle: "Keyboard shortcuts",
  keys: {
    search: "Search conversations",
    new: "New conversation",
    memory: "Show or hide the memory",
    settings: "Settings",
    write: "To the message field",
    last: "Edit the last message (in an empty message field)",
    turns: "Previous, next turn",
    stop: "Stop the answer, close what is open",
    help: "This list",
  },

  // the line under an answer
  firstToken: (/** @type {number} */ ms) => `${seconds(ms)} to the first token`,
  rate: (/** @type {number} */ r) => `${r >= 10 ? Math.round(r) : r.toFixed(1)} tokens/s`,
  reused: (/** @type {number} */ n, /** @type {number} */ of) => `${number(n)} of ${count(of, "token")} reused`,
  whyTitle: (/** @type {number} */ of) => `Of ${count(of, "token")} sent`,
  takenOver: "taken over",
  takenOverMore: "still in place where the last answer ended: nothing moved",
  mapped: "shared",
  mappedMore: "the same memory, seen from a second address",
  copiedRows: "copied",
  copiedMore: "the end of a chunk that others use too",
  promoted: "brought back",
  promotedMore: "from a slower tier of memory",
  computed: "computed",
  computedMore: "new to the server",
  whyNotMore: "Why not more?",
  made: (/** @type {number} */ n) => `${count(n, "token")} written.`,
  why: /** @type {Record<string, (stopped: Stopped) => string>} */ ({
    none: () => "It could not be more: the last token is always computed, because it makes the next one.",
    record_ends: () => "Everything that was remembered was reused. The rest is new: your message.",
    differs: ({ at, found, asked }) =>
      `After ${count(at, "token")} what is remembered goes on with ${quoted(found)}, but this conversation with ${quoted(asked)}.`,
    evicted: () => "There was more, but it was given up: others needed the memory.",
    flushed: () => "There was more, but the operator had the memory emptied.",
    distrusted: () => "There was more, but it was thrown away after an answer with numbers that made no sense.",
    below_unit: () => "Less than one chunk more was remembered, and there was no free memory to copy it.",
    template_rewrote_history: ({ at }) =>
      `The model’s chat template writes the past in another way than before, from token ${number(at)} on.`,
    nothing_recorded: () => "Nothing of this is remembered, or it belongs to another key, which is never told.",
    reuse_off: () => "Reuse was turned off for this answer.",
  }),

  // the memory panel
  memoryTitle: "Memory",
  memoryIntro: "What the server remembers, so that it need not read it again. Wide is long; rows that begin together share their beginning.",
  memoryEmpty: "Nothing is remembered yet. Say something, and it will appear here.",
  memoryFailed: "The memory cannot be shown.",
  used: "of one conversation",
  shared: "shared by several",
  free: "kept free",
  untaken: "not taken",
  ofLimit: (/** @type {number} */ used, /** @type {number} */ limit) => `${bytes(used)} of ${bytes(limit)} in use`,
  givenBack: "given back to the device since the start",
  deviceFree: "free on the device",
  chunkOf: (/** @type {number} */ tokens) => `a chunk of ${count(tokens, "token")}`,
  runningNow: "answers being written, waiting",
  othersHold: (/** @type {number} */ nodes, /** @type {number} */ size) => `Other keys hold ${bytes(size)} in ${count(nodes, "piece")}.`,
  notShown: (/** @type {number} */ n) => `${count(n, "older piece")} not shown.`,
  legendPrivate: "private",
  legendShared: "shared",
  legendUse: "in use now",
  legendNext: "given up next",
  legendHere: "this conversation",
  legendWarm: "warm: the next turn starts at once",
  tiers: /** @type {Record<string, string>} */ ({ device: "on the device", host: "in host memory", disk: "on disk" }),
  pieceTokens: (/** @type {number} */ start, /** @type {number} */ end) => `Tokens ${number(start)} to ${number(end)}`,
  pieceChunks: (/** @type {number} */ n, /** @type {number} */ size) => `${count(n, "chunk")}, ${bytes(size)}`,
  pieceShared: "shared by several",
  piecePrivate: "private",
  pieceUse: "in use now",
  pieceWarm: "warm",
  pieceIdle: (/** @type {number} */ s) => (s < 2 ? "just used" : `idle for ${s < 120 ? `${Math.round(s)} s` : `${Math.round(s / 60)} min`}`),
  pieceNext: (/** @type {number} */ n) => (n === 0 ? "would be given up first" : `would be given up after ${number(n)} other${n === 1 ? "" : "s"}`),
  pieceKept: "not given up while it is used",
  pieceHint: "Point at a piece, or walk through them with the arrow keys.",
  openPiece: "Enter opens the conversation",
  unnamedPiece: "no conversation",
  pictureLabel: (/** @type {number} */ nodes, /** @type {number} */ leaves) =>
    `${count(nodes, "piece")} of memory, ${count(leaves, "conversation end")}. Walk through them with the arrow keys.`,
};

/** Fill a frame's marked elements. @param {ParentNode} root @param {(name: string) => Element} icon */
export function fill(root, icon) {
  const said = /** @type {Record<string, string>} */ (/** @type {unknown} */ (text));
  for (const each of root.querySelectorAll("[data-icon]")) each.prepend(icon(each.getAttribute("data-icon") ?? ""));
  for (const each of root.querySelectorAll("[data-text]")) {
    const span = document.createElement("span");
    span.textContent = said[each.getAttribute("data-text") ?? ""];
    each.append(span);
  }
  for (const each of root.querySelectorAll("[data-label]")) {
    const label = said[each.getAttribute("data-label") ?? ""];
    each.setAttribute("aria-label", label);
    if (each.matches("button")) each.setAttribute("title", label);
  }
  for (const each of root.querySelectorAll("[data-placeholder]")) {
    each.setAttribute("placeholder", said[each.getAttribute("data-placeholder") ?? ""]);
  }
}
