export const PROTOCOL_VERSION = '2025-11-25'
/** The stateless revision. */
export const MODERN_VERSION = '2026-07-28'
export const TOOL = 'add_to_cart'
/** As small as the arguments and answers of real tools. */
export const ARGS = { item: 'apple', count: 2 } as const
export const TEXT = 'Two apples were added to the cart.'
export const CLIENT_INFO = { name: 'bench', version: '1.0.0' } as const
/** `_meta` of every request of the stateless revision. */
export const MODERN_META = {
  'io.modelcontextprotocol/protocolVersion': MODERN_VERSION,
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.modelcontextprotocol/clientInfo': CLIENT_INFO,
} as const

/** Returns whether the server answers at this URL without sessions. */
export function isModern(url: string): boolean {
  return new URL(url).pathname.startsWith('/modern/')
}

/** The tool, as the server lists it. */
export const DEFINITION = {
  name: TOOL,
  description: 'Puts items into the cart.',
  inputSchema: {
    type: 'object',
    properties: { item: { type: 'string' }, count: { type: 'number' } },
    required: ['item', 'count'],
  },
} as const

/** @throws Error unless this is the result that the server sends. */
export function checkResult(result: unknown): void {
  const { content } = (result ?? {}) as { content?: unknown }
  const [first] = Array.isArray(content) ? (content as { text?: unknown }[]) : []
  if (first?.text === TEXT) return
  throw new Error(`Wrong result: ${JSON.stringify(result).slice(0, 200)}`)
}

/** @throws Error unless this is the text that a model reads. */
export function checkText(text: unknown): void {
  if (text !== TEXT) throw new Error(`Wrong result: ${JSON.stringify(text)}`)
}
