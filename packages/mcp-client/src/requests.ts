import { LONGEST_MS } from '@x/internal'
import { McpError, ProgressSchema } from '@modelcontextprotocol/sdk/types.js'
import type { Progress } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import type { Answer, CallHandlers, InputInstructions, McpConnection } from '@x/mcp-transport'
import { UnreadableResult } from './errors.ts'

/** A connection to a server at a URL, or to a child process. */
export type ServerConnection = Pick<
  McpConnection,
  | 'sessionId'
  | 'isResumed'
  | 'epoch'
  | 'era'
  | 'protocolVersion'
  | 'serverCapabilities'
  | 'open'
  | 'notify'
  | 'createCall'
  | 'send'
  | 'withdraw'
  | 'cancel'
  | 'terminate'
  | 'close'
> &
  Partial<OnlyAtUrl> & {
    /** Why the session of a child process ended, or why a server may not answer. */
    readonly evidence?: TransportError | undefined
  }

/** Parts for tasks, which servers on stdio do not have, and for another session: a child process is its session. */
type OnlyAtUrl = Pick<McpConnection, 'endpoint' | 'answersTo' | 'toToolResult' | 'replaceSession'>

/** A schema that checks the result of a request, such as those of the SDK. */
export interface ResultSchema<T> {
  parse(result: unknown): T
}

export interface SendOptions {
  readonly signal?: AbortSignal | undefined
  /** In milliseconds. @default none: only the signal ends the request */
  readonly timeout?: number | undefined
  readonly onprogress?: ((progress: Progress) => void) | undefined
  readonly inputs?: InputInstructions | undefined
  /** Added to the HTTP requests of this request. @default none */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Called if the server did not take the cancellation of an aborted request. @default nothing */
  readonly onCancelFailed?: ((error: unknown) => void) | undefined
  /** Take messages on the response stream of this request. @default those of the connection */
  readonly handlers?: CallHandlers | undefined
}

/**
 * Sends a request and returns its result.
 *
 * @throws TransportError for a request without an answer, also if `signal` or `timeout` ended it; the SDK's `McpError`
 * for an error of the server; UnreadableResult for a result that does not fit the schema
 */
export async function sendRequest<T>(
  connection: Pick<ServerConnection, 'createCall' | 'send' | 'withdraw' | 'cancel'>,
  request: {
    readonly method: string
    readonly params?: Readonly<Record<string, unknown>> | undefined
  },
  options: SendOptions & { readonly schema: ResultSchema<T> },
): Promise<T> {
  const { schema, signal, timeout = LONGEST_MS, onprogress, inputs, headers, handlers } = options
  const { onCancelFailed = () => {} } = options
  signal?.throwIfAborted()
  const { promise: outcome, resolve } = Promise.withResolvers<Answer | TransportError>()
  let timer: NodeJS.Timeout | undefined
  const settle = (settled: Answer | TransportError): void => {
    clearTimeout(timer)
    // One signal may serve thousands of requests.
    if (onAbort !== undefined) signal?.removeEventListener('abort', onAbort)
    resolve(settled)
  }
  const abandon = (reason: string): void => {
    const isUnsent = connection.withdraw(call)
    if (!isUnsent) connection.cancel(call, { reason }).catch(onCancelFailed)
    settle(isUnsent ? withdrawn() : abandoned())
  }
  const onAbort = signal === undefined ? undefined : (): void => abandon(String(signal.reason))
  const onProgress = onprogress && ((params: unknown) => report(params, onprogress))
  const callOptions = { ...handlers, inputs, headers, onProgress }
  const call = connection.createCall(request, callOptions, settle)
  if (onAbort !== undefined) signal?.addEventListener('abort', onAbort)
  if (timeout < LONGEST_MS) timer = setTimeout(() => abandon('Request timed out'), timeout)
  void connection.send(call)
  // Here and not where the answer arrives, so that the stack of an error shows the caller.
  return readResult(schema, resultOf(await outcome))
}

function withdrawn(): TransportError {
  const message = 'The request was cancelled before it was sent'
  return new TransportError('CLOSED', message, { outcome: 'not-executed' })
}

function abandoned(): TransportError {
  return new TransportError('TIMEOUT', 'This side stopped waiting for the answer')
}

function report(params: unknown, onprogress: (progress: Progress) => void): void {
  const parsed = ProgressSchema.safeParse(params)
  if (parsed.success) onprogress(parsed.data)
}

/** @throws McpError for an error of the server; the TransportError of a request without an answer */
export function resultOf(outcome: Answer | TransportError): unknown {
  if (TransportError.is(outcome)) throw outcome
  if ('result' in outcome) return outcome.result
  const { code, message, data } = outcome.error
  const error = McpError.fromError(code, message, data)
  Error.captureStackTrace(error, resultOf) // V8 keeps 10 frames: room for those of the caller
  throw error
}

/** @throws UnreadableResult if the schema refuses the result */
export function readResult<T>(schema: ResultSchema<T>, result: unknown): T {
  try {
    return schema.parse(result)
  } catch (error) {
    // Other errors are mistakes in a schema of the caller.
    throw error instanceof Error && 'issues' in error ? new UnreadableResult(result, error) : error
  }
}
