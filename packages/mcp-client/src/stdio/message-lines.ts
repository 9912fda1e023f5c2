import type { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { JSONRPCMessageSchema } from '@modelcontextprotocol/sdk/types.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { isRecord, LineBuffer } from '@x/internal'
import { parseMessage, repairMessage } from '@x/internal/mcp-answers'

/**
 * Lets the SDK's transport read what servers are known to send: its own buffer refuses a message with a `null` where its
 * schema has none, and the request never gets an answer. Does nothing if the SDK keeps its buffer elsewhere.
 */
export function readRepaired(transport: StdioClientTransport, maxBytes: number): void {
  if ('_readBuffer' in transport) Reflect.set(transport, '_readBuffer', new MessageLines(maxBytes))
}

/** The answer to a request, in a form that JSON-RPC does not know. */
export class UnreadableAnswer extends Error {
  readonly id: string | number

  constructor(id: string | number, cause: unknown) {
    super('The answer is no JSON-RPC message', { cause })
    this.id = id
  }
}

/** The buffer of the SDK's transport, with repaired messages. */
class MessageLines extends LineBuffer {
  /**
   * @throws SyntaxError for a line that is not JSON; UnreadableAnswer for one that answers a request, but not as JSON-RPC
   * says; ZodError for any other
   */
  readMessage(): JSONRPCMessage | null {
    const line = this.next()
    if (line === undefined) return null
    const value = parseMessage(line)
    repairMessage(value)
    const parsed = JSONRPCMessageSchema.safeParse(value)
    if (parsed.success) return parsed.data
    const id = isRecord(value) && !('method' in value) ? value['id'] : undefined
    const isAnswer = typeof id === 'string' || typeof id === 'number'
    throw isAnswer ? new UnreadableAnswer(id, parsed.error) : parsed.error
  }
}
