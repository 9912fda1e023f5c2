import type { JSONSchema } from '@langchain/core/utils/json_schema'
import { TOOL } from '../client/protocol.ts'

/** The tool of the server under `../client/server.ts`, as it lists it. */
export const INPUT_SCHEMA = {
  type: 'object',
  properties: { item: { type: 'string' }, count: { type: 'number' } },
  required: ['item', 'count'],
} satisfies JSONSchema

export const DEFINITION = {
  name: TOOL,
  description: 'Puts things into the cart',
  inputSchema: INPUT_SCHEMA,
}
