import type { RequestId } from './json-rpc.ts'

/** What a client may say of one request, whatever the server is. */
export interface CallOptions {
  /** Resumes the stream of an earlier request at this event id, instead of sending the request. */
  readonly resumptionToken?: string | undefined
  /** Told every event id of the stream that answers the request. */
  readonly onresumptiontoken?: ((token: string) => void) | undefined
}

/** What a client says that speaks the stateless revision by itself, as that of SDK v2 can. */
export interface PassthroughOptions extends CallOptions {
  /** Aborting it closes the stream of this request, which is how 2026-07-28 cancels. Used by SDK v2. */
  readonly requestSignal?: AbortSignal | undefined
  /** Called when the stream of this request ends otherwise. Used by SDK v2. */
  readonly onRequestStreamEnd?: (() => void) | undefined
  /** Further `Mcp-Param-*` headers of this request; others are left out. Used by SDK v2. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** Said with one message. All but `relatedRequestId`, which is not needed here, is about requests. */
export interface SendOptions extends PassthroughOptions {
  readonly relatedRequestId?: RequestId | undefined
}
