import { GraphInterrupt } from '@langchain/langgraph'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { splitErrorLink, withErrorLink } from '@x/internal'
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { AnsweringSource, toolCall, toolOver } from '../test/answering-source.ts'

function clientError(code: string, message = 'what went wrong'): Error {
  return Object.assign(new Error(message), { name: 'McpClientError', code })
}

function transportError(code: string, certain?: boolean): Error {
  return Object.assign(new Error('broken'), { name: 'TransportError', code, certain })
}

const broken = transportError('OUTCOME_UNKNOWN')

/** Calls a tool of a source that fails, which throws its failure. */
function thrownFor(cause: Error): Promise<unknown> {
  const tool = toolOver(new AnsweringSource(cause), {}, { onToolError: 'throw' })
  return tool.invoke({ item: 'x' }).then(
    () => 'It did not reject',
    (error: unknown) => error,
  )
}

test('shows the section of its code to people, and not to a model', async () => {
  const message = withErrorLink('tool "add": no connection', 'UNREACHABLE')
  const cause = clientError('UNREACHABLE', message)
  const answer: unknown = await toolOver(new AnsweringSource(cause)).invoke(toolCall({ item: 'x' }))
  expect(answer).toMatchObject({ content: expect.stringMatching(/no connection$/) })
  const error = await thrownFor(cause)
  expect(error).toMatchObject({ message: expect.stringMatching(/no connection$/) })
  expect(inspect(error)).toContain(
    `McpToolError: ${withErrorLink((error as Error).message, 'UNREACHABLE')}`,
  )
})

test('has no half of a character in its text for the model', async () => {
  const cause = clientError('UNREACHABLE', `a${'😀'.repeat(2000)}`)
  const answer: unknown = await toolOver(new AnsweringSource(cause)).invoke(toolCall({ item: 'x' }))
  const { content } = answer as { readonly content: string }
  expect([content.endsWith('…'), content.isWellFormed()]).toEqual([true, true])
})

test('has the address in its message if only the developer can correct the error', async () => {
  const error = await thrownFor(clientError('NO_RUN', withErrorLink('no run', 'NO_RUN')))
  const [text, link] = splitErrorLink((error as Error).message)
  expect(link).toBe(splitErrorLink(withErrorLink('', 'NO_RUN'))[1])
  expect(text).toMatch(/no run$/)
})

describe('a failed call', () => {
  test.each([
    ['SESSION_LOST', undefined, /could not be re-established.*try again later/],
    ['OUTCOME_UNKNOWN', 'unknown', /may or may not have been executed.*Check.*what went wrong/],
    ['TIMEOUT', 'unknown', /may or may not have been executed.*No answer came in time.*Check/],
    ['UNREACHABLE', 'not-executed', /not executed.*what went wrong/],
    ['UNAUTHORIZED', 'not-executed', /refused the credentials/],
    ['INVALID_OUTPUT', 'executed', /was executed.*does not fit.*what went wrong/],
  ])('of kind %s has an outcome (%s), and a text for the model', async (code, outcome, text) => {
    const cause = clientError(code)
    const tool = toolOver(new AnsweringSource(cause))
    const message: unknown = await tool.invoke(toolCall({ item: 'x' }))
    expect(message).toMatchObject({ status: 'error', content: expect.stringMatching(text) })
    const thrown = { name: 'McpToolError', code, cause, outcome }
    expect(await thrownFor(cause)).toMatchObject(thrown)
  })

  test.each(['REJECTED', 'UNEXPECTED_RESPONSE', 'TIMEOUT', 'SESSION_LOST', 'CLOSED'])(
    'before it was sent (%s) says that the tool was not executed',
    async (code) => {
      const failed = await thrownFor(Object.assign(clientError(code), { outcome: 'not-executed' }))
      expect(failed).toMatchObject({ outcome: 'not-executed' })
      expect(String(failed)).not.toContain('may or may not')
    },
  )

  test.each(['UNREACHABLE', 'REJECTED', 'UNAUTHORIZED', 'SESSION_LOST', 'TIMEOUT'])(
    'that may have been executed (%s) never says that it was not',
    async (code) => {
      const failed = await thrownFor(Object.assign(clientError(code), { outcome: 'unknown' }))
      expect(failed).toMatchObject({ outcome: 'unknown' })
      expect(String(failed)).toMatch(
        /^McpToolError: MCP tool "add item" of server "shop" may or may not have been executed\. .*Check what happened before you repeat the call/,
      )
      expect(String(failed)).not.toMatch(/failed\.|was not executed|try again/i)
    },
  )

  test('takes the outcome from the transport below a client of the SDK', async () => {
    const failure = Object.assign(transportError('REJECTED'), { outcome: 'not-executed' })
    const failed = await thrownFor(new McpError(-32_000, 'Too many requests', failure))
    expect(failed).toMatchObject({ code: 'HTTP_ERROR', outcome: 'not-executed' })
    expect(String(failed)).toContain('so the tool was not executed')
  })

  test("shortens the message of a server's error", async () => {
    const refused = new McpError(-32_602, `no such cart ${'x'.repeat(5000)}`)
    const content: unknown = await toolOver(new AnsweringSource(refused)).invoke({ item: 'x' })
    expect(content).toMatch(/"add item" of server "shop".*answered with an error.*no such cart/)
    expect(String(content).length).toBeLessThan(1500)
  })

  test.each([
    ['an answer with the number of a time-out', new McpError(-32_001, 'no'), 'SERVER_ERROR'],
    ['an answer with that of a closed connection', new McpError(-32_000, 'no'), 'SERVER_ERROR'],
    ['a transport under the SDK', new McpError(-32_000, 'lost', broken), 'OUTCOME_UNKNOWN'],
    ['a refusal that proves nothing', transportError('SESSION_LOST', false), 'OUTCOME_UNKNOWN'],
    ['a refusal that is certain', transportError('SESSION_LOST', true), 'SESSION_LOST'],
    ['an answer that is not MCP', clientError('REJECTED'), 'HTTP_ERROR'],
  ])('of kind %s has its own code', async (_, cause, code) => {
    expect(await thrownFor(cause)).toMatchObject({ code, cause })
  })

  test.each([
    ['CONFIG', 'CONFIG'],
    ['NOT_FOUND', 'CONFIG'],
    ['NO_RUN', 'NO_RUN'],
    ['CLOSED', 'CLOSED'],
  ])('of kind %s is thrown, because a model cannot correct it', async (code, expected) => {
    const call = toolOver(new AnsweringSource(clientError(code))).invoke(toolCall({ item: 'x' }))
    await expect(call).rejects.toMatchObject({ name: 'McpToolError', code: expected })
  })

  test.each([
    ['an interrupt of the graph', new GraphInterrupt([])],
    ['an abort', new DOMException('stopped', 'AbortError')],
    ['a bug', new TypeError('x is not a function')],
  ])('of kind %s is rethrown unchanged', async (_, error) => {
    const call = toolOver(new AnsweringSource(error)).invoke(toolCall({ item: 'x' }))
    await expect(call).rejects.toBe(error)
  })
})
