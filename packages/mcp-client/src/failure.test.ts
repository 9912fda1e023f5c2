import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { TransportError } from '@x/mcp-transport'
import type { TransportErrorCode } from '@x/mcp-transport'
import { describe, expect, test } from 'vitest'
import { DeadlineError } from './deadline.ts'
import { failureFrom, openingErrorFrom, outcomeOf, thrownFrom } from './failure.ts'
import { McpClientError } from './mcp-client-error.ts'

const live = new AbortController().signal
const expired = AbortSignal.abort(new DeadlineError('No answer within 50 ms'))
const server = 'shop'

/** As the transport's failures come through the SDK. */
function sdkError(failure: TransportError): McpError {
  return new McpError(-32000, failure.message, failure)
}

function lost(certain: boolean): TransportError {
  return new TransportError('SESSION_LOST', '', { certain })
}

function opening(error: unknown, options = {}): unknown {
  return openingErrorFrom(error, { server, signal: live, ...options })
}

function thrown(error: unknown, context: Partial<Parameters<typeof thrownFrom>[1]> = {}): unknown {
  return thrownFrom(error, {
    server,
    method: 'tools/call',
    tool: 'pay',
    signal: live,
    outcome: outcomeOf(error),
    ...context,
  })
}

describe('the failure of the transport', () => {
  test('is found inside the error of the SDK, or is the error itself', () => {
    const failure = new TransportError('UNREACHABLE', 'No connection')
    expect(failureFrom(sdkError(failure))).toBe(failure)
    expect(failureFrom(failure)).toBe(failure)
    expect(failureFrom(new McpError(-32000, 'Server error', { code: 'UNREACHABLE' }))).toBe(
      undefined,
    )
    expect(failureFrom(new Error('x'))).toBe(undefined)
  })
})

describe('what a caller gets', () => {
  test('a failure of the transport becomes an error that names server and tool, with its cause', () => {
    const failure = new TransportError('UNREACHABLE', 'No connection to http://h/mcp')
    const error = thrown(sdkError(failure))
    expect(error).toBeInstanceOf(McpClientError)
    expect(error).toMatchObject({
      code: 'UNREACHABLE',
      server,
      tool: 'pay',
      outcome: 'not-executed',
      message: 'tool "pay" of MCP server "shop": No connection to http://h/mcp',
      cause: failure,
    })
  })

  test('an answer of the server stays as it is, also one that came with an HTTP error status', () => {
    const answer = new McpError(-32602, 'Unknown tool')
    expect(thrown(answer)).toBe(answer)
    const serverError = { code: -32600, message: 'Invalid Request' }
    const rejected = sdkError(
      new TransportError('REJECTED', 'HTTP 400', { status: 400, serverError }),
    )
    expect(thrown(rejected)).toBe(rejected)
  })

  test('an ambiguous refusal of the session: the tool may have run', () => {
    const failure = new TransportError('SESSION_LOST', 'lost', { certain: false })
    expect(thrown(sdkError(failure))).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
    expect(thrown(sdkError(failure), { tool: undefined })).toMatchObject({ code: 'SESSION_LOST' })
  })

  test('the time was up: TIMEOUT, and whether it was sent decides about the outcome', () => {
    expect(thrown(new Error('x'), { signal: expired, outcome: 'unknown' })).toMatchObject({
      code: 'TIMEOUT',
      outcome: 'unknown',
      message: 'tool "pay" of MCP server "shop" gave no answer within 50 ms',
    })
    const unsent = thrown(new Error('x'), { signal: expired, outcome: 'not-executed' })
    expect(unsent).toMatchObject({ code: 'TIMEOUT', outcome: 'not-executed' })
  })

  test('the caller gave up: the reason, untouched', () => {
    const reason = new Error('changed my mind')
    expect(thrown(new Error('x'), { signal: AbortSignal.abort(reason) })).toBe(reason)
  })

  test('a result that fits no schema is the fault of the server; a mistake of the caller is none', () => {
    const invalid = Object.assign(new Error('[]'), { issues: [] })
    expect(thrown(invalid)).toMatchObject({ code: 'UNEXPECTED_RESPONSE', cause: invalid })
    const mistake = new TypeError('Do not know how to serialize a BigInt')
    expect(thrown(mistake)).toBe(mistake)
    expect(thrown(invalid, { outcome: 'not-executed' })).toBe(invalid) // of a directory, say
  })

  test('no session could be opened for the second attempt, and the first may have run: doubt remains', () => {
    const unsent = new McpClientError('UNREACHABLE', 'down', { server, outcome: 'not-executed' })
    expect(thrown(unsent, { outcome: 'not-executed' })).toEqual(
      new McpClientError('UNREACHABLE', 'down', { server, tool: 'pay', outcome: 'not-executed' }),
    )
    const error = thrown(unsent, { outcome: 'unknown' })
    expect(error).toMatchObject({ code: 'UNREACHABLE', outcome: 'unknown', tool: 'pay' })
    expect(error).toHaveProperty('cause', unsent)
  })
})

describe('what became of a request that was sent', () => {
  const outcomes: Record<Exclude<TransportErrorCode, 'SESSION_LOST'>, string> = {
    CLOSED: 'unknown',
    UNREACHABLE: 'not-executed',
    OUTCOME_UNKNOWN: 'unknown',
    UNAUTHORIZED: 'not-executed',
    REJECTED: 'unknown',
    UNEXPECTED_RESPONSE: 'unknown',
    LIMIT: 'unknown',
    TIMEOUT: 'unknown',
    CONFIG: 'not-executed',
    RECORD_UNUSABLE: 'not-executed',
  }
  test.each(Object.entries(outcomes))('%s: %s', (code, outcome) => {
    expect(outcomeOf(new TransportError(code as TransportErrorCode, ''))).toBe(outcome)
  })

  test('a refused session proves that nothing ran, if the refusal is certain', () => {
    expect(outcomeOf(lost(true))).toBe('not-executed')
    expect(outcomeOf(lost(false))).toBe('unknown')
  })
})

describe('a session that could not be opened', () => {
  test('nothing was sent, also if the connection broke in the middle of the handshake', () => {
    const failure = new TransportError('OUTCOME_UNKNOWN', 'The connection broke')
    expect(opening(sdkError(failure))).toMatchObject({
      code: 'UNREACHABLE',
      outcome: 'not-executed',
      message: 'initialize of MCP server "shop": The connection broke',
    })
  })

  test('a server that is silent: TIMEOUT, nothing was sent', () => {
    expect(opening(new Error('x'), { signal: expired })).toMatchObject({
      code: 'TIMEOUT',
      outcome: 'not-executed',
      message: 'initialize of MCP server "shop" gave no answer within 50 ms',
    })
  })

  test('a server that cannot be understood: UNEXPECTED_RESPONSE', () => {
    const error = new Error("Server's protocol version is not supported: 1999-01-01")
    expect(opening(error)).toMatchObject({ code: 'UNEXPECTED_RESPONSE', cause: error })
  })

  test('an error of the server, and one of ours, stay as they are', () => {
    const answer = new McpError(-32603, 'Not today')
    expect(opening(answer)).toBe(answer)
    const config = new McpClientError('CONFIG', 'bad header', { server })
    expect(opening(config)).toBe(config)
  })

  test('tells the loss that made it necessary, and behind it why it failed', () => {
    const loss = new TransportError('SESSION_LOST', 'lost', {
      status: 404,
      certain: true,
      epoch: 3,
    })
    const failure = new TransportError('UNREACHABLE', 'No connection')
    const error = opening(sdkError(failure), { loss })
    expect(error).toMatchObject({
      code: 'UNREACHABLE',
      cause: { code: 'SESSION_LOST', message: 'lost', status: 404, epoch: 3, cause: failure },
    })
  })
})
