/** One HTTP request, whatever server it came in by. */
export interface HttpExchange {
  /** Its body is read with `readBody` only. Its signal aborts when the client has gone. */
  readonly request: Request
  readBody(): Promise<BodyText>
  /** IP of the client, for limits. @default not known */
  readonly address?: string | undefined
  /** Resolves when the client took what was written, or has gone. @default at once */
  readonly writable?: (() => Promise<void> | undefined) | undefined
  /** Whether there is memory for an answer to this owner; asked before the request runs. @default always */
  readonly hasRoom?: ((owner: string) => boolean) | undefined
}

/** The answer, and who wants to know how it arrived. */
export interface HttpAnswer {
  readonly response: Response
  /** All that it says, where that is one message as JSON, with `status`: the response need not be made then. */
  readonly json?: string | undefined
  readonly status?: number | undefined
  /** Called once: the body was taken to its end, or the client left before. */
  readonly onEnd?: ((end: 'complete' | 'lost') => void) | undefined
}

/** A request body as text, or why there is none. */
export type BodyText =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly why: 'too-large' | 'broken' | 'slow' }
