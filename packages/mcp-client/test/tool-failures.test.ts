// Tools that fail after they have run, with texts that look like those of a lost session. No tool may run a second
// time, and no call may be reported as not executed.
import {
  startLegacyServer,
  startModernServer,
  startRecordingProxy,
  toolFailures,
} from '@x/mcp-testing'
import type { CannedAnswer, InjectedAction } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import { DurableFactory } from './session-stores.ts'
import { is, rejectionOf } from './setting.ts'

type Form = 'single' | 'parallel' | 'resumed'
const forms: readonly Form[] = ['single', 'parallel', 'resumed']

const cases = Object.entries(toolFailures).flatMap(([tool, answer]) =>
  forms.map((form) => ({ tool, answer, form })),
)

const isCall = is.method('tools/call')
const afterExecution = (answer: CannedAnswer): InjectedAction => ({
  type: 'answer',
  answer,
  when: 'after-execution',
})
const callsIn = (form: Form): number => (form === 'parallel' ? 5 : 1)

/** The client under test: a new one, or one that resumes from the same store. */
async function connected<T extends AsyncDisposable>(
  form: Form,
  connect: () => Promise<T>,
): Promise<T> {
  const first = await connect()
  if (form !== 'resumed') return first
  await first[Symbol.asyncDispose]()
  return connect()
}

function calls(form: Form, call: () => Promise<unknown>): Promise<unknown[]> {
  return Promise.all(Array.from({ length: callsIn(form) }, () => rejectionOf(call())))
}

describe('a tool that fails after it has run', () => {
  test.each(cases)('McpClient, $tool, $form: runs once, outcome unknown', async (given) => {
    const { answer, form } = given
    await using server = await startLegacyServer()
    await using proxy = await startRecordingProxy(server.url)
    const sessionInfoFactory = new DurableFactory()
    await using client = await connected(form, async () => {
      const one = new McpClient({ url: proxy.url }, { sessionInfoFactory })
      await one.ping()
      return one
    })
    const repair = proxy.inject({ match: isCall, action: afterExecution(answer) })
    for (const error of await calls(form, () => client.callTool('counter_add'))) {
      expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
    }
    expect(server.executions('counter_add')).toBe(callsIn(form))
    repair()
    await client.callTool('counter_add')
    expect(server.executions('counter_add')).toBe(callsIn(form) + 1)
  })
})

// The client asks the server whether it is still stateless. That request gets a misleading response as well.
describe.each(Object.entries(toolFailures))('on a server of both eras, %s', (_tool, answer) => {
  test('runs once when `server/discover` is refused after the call', async () => {
    await using server = await startModernServer({ legacy: 'serve' })
    await using proxy = await startRecordingProxy(server.url)
    await using client = new McpClient({ url: proxy.url })
    await client.callTool('echo', { text: 'first' })
    proxy.inject({ match: isCall, times: 1, action: afterExecution(answer) })
    proxy.inject({ match: is.method('server/discover'), times: 2, action: { status: 404 } })
    expect(await rejectionOf(client.callTool('echo', { text: 'second' }))).not.toMatchObject({
      outcome: 'not-executed',
    })
    expect(server.executions('echo')).toBe(2)
  })
})
