import type { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { JSONRPCMessageSchema } from '@modelcontextprotocol/sdk/types.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { repairMessage } from '@x/internal/mcp-answers'

/**
 * Lets the SDK's transport read what servers are known to send: its own buffer refuses a message with a `null` where its
 * schema has none, and the request never gets an answer. Does nothing if the SDK keeps its buffer elsewhere.
 */
export function readRepaired(transport: StdioClientTransport, maxBytes: number): void {
  if ('_readBuffer' in transport) Reflect.set(transport, '_readBuffer', new MessageLines(maxBytes))
}

/** The buffer of the SDK's transport, with repaired messages. */
class MessageLines {
  readonly #maxBytes: number
  #chunks: Buffer[] = []
  #bytes = 0
  #lines: string[] = []

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** @throws Error for a line that is too long */
  append(chunk: Buffer): void {
    let rest = chunk
    for (let end = rest.indexOf('\n'); end !== -1; end = rest.indexOf('\n')) {
      this.#chunks.push(rest.subarray(0, end))
      this.#lines.push(Buffer.concat(this.#chunks).toString().replace(/\r$/, ''))
      this.#chunks = []
      this.#bytes = 0
      rest = rest.subarray(end + 1)
    }
    this.#chunks.push(rest)
    this.#bytes += rest.length
    if (this.#bytes <= this.#maxBytes) return
    this.clear()
    throw new Error(`A line is longer than ${this.#maxBytes} bytes`)
  }

  /** @throws SyntaxError for a line that is not JSON; ZodError for one that is no JSON-RPC message */
  readMessage(): JSONRPCMessage | null {
    const line = this.#lines.shift()
    if (line === undefined) return null
    const value: unknown = JSON.parse(line)
    repairMessage(value)
    return JSONRPCMessageSchema.parse(value)
  }

  clear(): void {
    this.#chunks = []
    this.#bytes = 0
    this.#lines = []
  }
}
