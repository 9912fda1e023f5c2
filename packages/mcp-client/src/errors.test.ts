import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { withErrorLink } from '@x/internal'
import { TransportError } from '@x/mcp-transport'
import { describe, expect, test } from 'vitest'
import { DeadlineError } from './deadline.ts'
import {
  getOutcome,
  getTransportError,
  McpClientError,
  toOpeningError,
  toOperationError,
  UnreadableResult,
} from './errors.ts'

const live = new AbortController().signal
const expired = AbortSignal.abort(new DeadlineError('No answer within 50 ms'))
const server = 'shop'

/** Wraps an error of the transport as the SDK does. */
function sdkError(failure: TransportError): McpError {
  return new McpError(-32000, failure.message, failure)
}

function opening(error: unknown, options = {}): unknown {
  const context = { server, signal: live, loss: undefined, evidence: undefined }
  return toOpeningError(error, { ...context, ...options })
}

function thrown(
  error: unknown,
  context: Partial<Parameters<typeof toOperationError>[1]> = {},
): unknown {
  return toOperationError(error, {
    server,
    method: 'tools/call',
    tool: 'pay',
    signal: live,
    outcome: getOutcome(error),
    ...context,
  })
}

describe('the error of the transport', () => {
  test('is found inside the error of the SDK, or is the error itself', () => {
    const failure = new TransportError('UNREACHABLE', 'No connection')
    expect(getTransportError(sdkError(failure))).toBe(failure)
    expect(getTransportError(failure)).toBe(failure)
    expect(getTransportError(new McpError(-32000, 'Server error', { code: 'UNREACHABLE' }))).toBe(
      undefined,
    )
    expect(getTransportError(new Error('x'))).toBe(undefined)
  })
})

describe('the error for a caller', () => {
  test('names server and tool, and has the error of the transport as its cause', () => {
    const failure = new TransportError('UNREACHABLE', 'No connection to http://h/mcp')
    const error = thrown(sdkError(failure))
    expect(error).toBeInstanceOf(McpClientError)
    expect(error).toMatchObject({
      code: 'UNREACHABLE',
      server,
      tool: 'pay',
      outcome: 'not-executed',
      message: withErrorLink(
        'tool "pay" of MCP server "shop": No connection to http://h/mcp',
        'UNREACHABLE',
      ),
      cause: failure,
    })
  })

  test('is the response of the server, also with an HTTP error status', () => {
    const answer = new McpError(-32602, 'Unknown tool')
    expect(thrown(answer)).toBe(answer)
    const serverError = { code: -32600, message: 'Invalid Request' }
    const rejected = sdkError(
      new TransportError('REJECTED', 'HTTP 400', { status: 400, serverError }),
    )
    expect(thrown(rejected)).toBe(rejected)
  })

  test('is UNEXPECTED_RESPONSE for an invalid result, and an unchanged error for a mistake of the caller', () => {
    const issues = new Error('[]')
    expect(thrown(new UnreadableResult(['raw'], issues))).toMatchObject({
      code: 'UNEXPECTED_RESPONSE',
      outcome: 'executed',
      result: ['raw'],
      cause: issues,
    })
    const mistake = new TypeError('Do not know how to serialize a BigInt')
    expect(thrown(mistake)).toBe(mistake)
  })
})

describe('the error of a session that could not be opened', () => {
  test('has the outcome not-executed, also if the connection broke during the handshake', () => {
    const failure = new TransportError('OUTCOME_UNKNOWN', 'The connection broke')
    expect(opening(sdkError(failure))).toMatchObject({
      code: 'UNREACHABLE',
      outcome: 'not-executed',
      message: withErrorLink(
        'initialize of MCP server "shop": The connection broke',
        'UNREACHABLE',
      ),
    })
  })

  test('is TIMEOUT for a silent server', () => {
    expect(opening(new Error('x'), { signal: expired })).toMatchObject({
      code: 'TIMEOUT',
      outcome: 'not-executed',
      message: expect.stringContaining(
        'initialize of MCP server "shop" failed: No answer within 50 ms. Check the server, or raise handshakeMs',
      ),
    })
  })

  test('is UNEXPECTED_RESPONSE for a protocol version that is not supported', () => {
    const error = new Error("Server's protocol version is not supported: 1999-01-01")
    expect(opening(error)).toMatchObject({ code: 'UNEXPECTED_RESPONSE', cause: error })
  })

  test('is the error of the server, or a McpClientError, unchanged', () => {
    const answer = new McpError(-32603, 'Not today')
    expect(opening(answer)).toBe(answer)
    const config = new McpClientError('CONFIG', 'bad header', { server })
    expect(opening(config)).toBe(config)
  })
})
