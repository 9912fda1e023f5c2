import { Role } from '@a2a-js/sdk'
import { expect, test } from 'vitest'

import { principalNamed } from '../../../test/scripted-source.ts'
import type { AgentCall } from '../agent-call.ts'
import { messageFrom } from './outgoing-message.ts'

const CALL: AgentCall = {
  runId: 'run_0123456789abcdef',
  agentId: 'shop',
  skillId: 'order',
  input: { kind: 'message', text: 'Hello', files: [] },
  principal: principalNamed('ada'),
  signal: new AbortController().signal,
  artifacts: {
    write: () => Promise.reject(new Error('none')),
    read: async () => undefined,
    list: async () => [],
  },
}

test('a call is a context of its own, a conversation one for all its calls, a task that of the agent', async () => {
  const contextOf = async (...args: Parameters<typeof messageFrom>): Promise<string> => {
    return (await messageFrom(...args)).contextId
  }
  const thread = '0af76519-16cd-43dd-8448-eb211c80319c'
  expect(await contextOf(CALL, undefined, Role.ROLE_USER)).toBe('')
  expect(await contextOf({ ...CALL, thread }, undefined, Role.ROLE_USER)).toBe(thread)
  const task = { taskId: 't', contextId: 'theirs' }
  expect(await contextOf({ ...CALL, thread }, task, Role.ROLE_USER)).toBe('theirs')
})
