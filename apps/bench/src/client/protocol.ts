/** How the server puts its answers: part of its URL. */
export const ANSWERS = ['json', 'sse'] as const

export type Answer = (typeof ANSWERS)[number]

export const PROTOCOL_VERSION = '2025-11-25'
export const TOOL = 'add_to_cart'
/** As small as the arguments and answers of real tools are. */
export const ARGS = { item: 'apple', count: 2 } as const
export const TEXT = 'Two apples were added to the cart.'
export const CLIENT_INFO = { name: 'bench', version: '1.0.0' } as const
