import {
  WebStandardStreamableHTTPServerTransport,
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  type RequestId,
} from '@modelcontextprotocol/server'

import type { ServerRequestIds } from '../replicas/server-request-ids.ts'

export type SessionTransportOptions = NonNullable<
  ConstructorParameters<typeof WebStandardStreamableHTTPServerTransport>[0]
> & {
  /** Puts the name of this process into what its server asks: another one may ask the same client. @default no name */
  readonly ids?: ServerRequestIds | undefined
}

/** The SDK's transport of one session, with what it leaves out. */
export class SessionTransport extends WebStandardStreamableHTTPServerTransport {
  /** Told of each request whose answer was sent. @default nobody */
  onAnswered: ((id: RequestId) => void) | undefined
  readonly #ids: ServerRequestIds | undefined

  constructor({ ids, ...options }: SessionTransportOptions) {
    super(options)
    this.#ids = ids
  }

  override send(
    message: JSONRPCMessage,
    options?: { readonly relatedRequestId?: RequestId },
  ): Promise<void> {
    const sent = super.send(this.#ids?.outgoing(message) ?? message, options)
    return this.onAnswered && !('method' in message) ? this.#tell(sent, message.id) : sent
  }

  /** In the name of its client, which said it elsewhere. */
  async say(method: string, params: object): Promise<void> {
    const headers = {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-session-id': this.sessionId ?? '',
    }
    const request = new Request('http://localhost/', { method: 'POST', headers })
    const parsedBody = { jsonrpc: '2.0', id: 0, method, params }
    const response = await this.handleRequest(request, { parsedBody })
    await response.text()
  }

  /**
   * Ends the stream of a request that gets no answer, and keeps this in its place: the SDK would remember the
   * request for as long as the session lives.
   */
  async dismiss(answer: JSONRPCErrorResponse & { readonly id: RequestId }): Promise<void> {
    this.closeSSEStream(answer.id)
    // Without an event store the SDK reports, before it returns, that nobody can be given the answer.
    const { onerror } = this
    this.onerror = () => undefined
    const sent = super.send(answer)
    if (onerror) this.onerror = onerror
    await sent
  }

  async #tell(sent: Promise<void>, id: RequestId | undefined): Promise<void> {
    await sent
    if (id !== undefined) this.onAnswered?.(id)
  }
}
