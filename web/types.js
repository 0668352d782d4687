// What travels between the page and its server; types only.

/** @typedef {{id: number, text: string}} Token */
/** @typedef {{at: number, why: string, found: Token | null, asked: Token | null}} Stopped why reuse ended there */
/** @typedef {{taken_over: number, mapped: number, copied: number, promoted: number, stopped: Stopped | null}} Reuse */
/**
 * @typedef {object} Usage
 * @property {number} input_tokens
 * @property {{cached_tokens: number, chatserve?: Reuse}} input_tokens_details
 * @property {number} output_tokens
 */
/** @typedef {{ttft_ms: number | null, tokens_per_second: number | null}} Times */
/** @typedef {{role: string, text: string, html: string | null}} Message */
/** @typedef {Record<string, number | string | null>} Sampling */
/** @typedef {{message: string, code?: string | null, type?: string, running?: string | null, status?: number, stop?: boolean}} ErrorView stop: it was one that was refused */
/**
 * @typedef {object} TurnView a turn of the tree, or one under way
 * @property {string} id
 * @property {string | null} parent
 * @property {number} created_at
 * @property {"completed" | "length" | "cancelled" | "failed" | "running" | "pending"} status the last two: the page's own
 * @property {string | null} instructions
 * @property {Message[]} messages
 * @property {string | null} answer
 * @property {string | null} thinking_html
 * @property {string[]} blocks
 * @property {Usage | null} usage
 * @property {Times | null} times
 * @property {Sampling | null} settings
 * @property {number} [tokens] of one under way
 * @property {ErrorView} [error]
 */
/**
 * @typedef {object} Tree
 * @property {string} id
 * @property {string | null} title
 * @property {string | null} leaf
 * @property {string | null} running
 * @property {TurnView[]} turns
 */
/** @typedef {{id: string, title: string | null, created_at: number, used_at: number, running?: boolean, excerpt?: string}} Row */
/**
 * @typedef {object} ServerSettings
 * @property {string} [model]
 * @property {number} [max_model_len]
 * @property {string[]} [models]
 * @property {Record<string, number | null>} [defaults]
 * @property {boolean} needs_key
 * @property {string} [version]
 * @property {{input_characters: number}} [limits]
 */
/**
 * @typedef {object} Device
 * @property {number} limit_bytes
 * @property {number} physical_bytes
 * @property {number} used_bytes
 * @property {number} shared_bytes
 * @property {number} free_bytes
 * @property {number} given_back_bytes
 * @property {number} mapped_bytes
 * @property {number} chunk_bytes
 * @property {number} chunk_tokens
 * @property {number} running
 * @property {number} waiting
 * @property {number | null} device_total_bytes
 * @property {number | null} device_free_bytes
 */
/**
 * @typedef {object} Piece a node of the rTree
 * @property {number} id
 * @property {number | null} parent
 * @property {number} start
 * @property {number} end
 * @property {number} chunks
 * @property {number} bytes
 * @property {boolean} shared
 * @property {string} tier
 * @property {boolean} in_use
 * @property {boolean} warm
 * @property {number} idle_s
 * @property {number | null} next
 * @property {string | null} conversation
 * @property {string | null} title
 */
/** @typedef {{device: Device, nodes: Piece[], more: number, others?: {nodes: number, bytes: number}}} MemoryView */

export {};
