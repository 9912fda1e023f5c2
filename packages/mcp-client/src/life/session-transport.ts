import type { StreamableHttpTransport, TransportError } from '@x/mcp-transport'

/** What a session needs of the transport under it, be the server at a URL or a child process. */
export interface SessionTransport extends Pick<
  StreamableHttpTransport,
  | 'start'
  | 'send'
  | 'close'
  | 'onclose'
  | 'onerror'
  | 'onmessage'
  | 'sessionId'
  | 'epoch'
  | 'isResumed'
  | 'era'
  | 'protocolVersion'
  | 'setProtocolVersion'
  | 'terminateSession'
  | typeof Symbol.asyncDispose
> {
  /** What is known of a server that does not answer. */
  readonly evidence?: TransportError | undefined
}
