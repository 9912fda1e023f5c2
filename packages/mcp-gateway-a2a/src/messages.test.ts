import { type Part, taskStateFromJSON, type TaskStatus } from '@a2a-js/sdk'
import { expect, test } from 'vitest'

import { agentCallOf } from '../../mcp-gateway/test/scripted-source.ts'
import { parseTaskState, toFinalUpdate, toMessage } from './messages.ts'

const CALL = agentCallOf({ agentId: 'shop', skillId: 'order' })

test('uses a new context for a call, one context for a conversation, and the context of a task that waits', async () => {
  const contextOf = async (...args: Parameters<typeof toMessage>): Promise<string> => {
    return (await toMessage(...args)).contextId
  }
  const thread = '0af76519-16cd-43dd-8448-eb211c80319c'
  expect(await contextOf(CALL, undefined)).toBe('')
  expect(await contextOf({ ...CALL, thread }, undefined)).toBe(thread)
  const task = { taskId: 't', contextId: 'theirs' }
  expect(await contextOf({ ...CALL, thread }, task)).toBe('theirs')
})

const task = { taskId: 't', contextId: 'c' }

function status(state: number, ...contents: NonNullable<Part['content']>[]): TaskStatus {
  const parts = contents.map((content) => {
    return { content, filename: '', mediaType: '', metadata: undefined }
  })
  const ids = { messageId: 'm', contextId: 'c', taskId: 't', role: 2 }
  const message = { ...ids, parts, metadata: undefined, extensions: [], referenceTaskIds: [] }
  return { state: taskStateFromJSON(state), message, timestamp: undefined }
}
const says = (value: string) => ({ $case: 'text', value }) as const
const data = (value: unknown) => ({ $case: 'data', value }) as const

test.for([
  ['completed', status(3), { type: 'done' }],
  ['failed', status(4, says('No stock')), { type: 'failed', reason: 'No stock' }],
  [
    'cancelled',
    status(5),
    { type: 'failed', reason: 'The task was cancelled.', isCancelled: true },
  ],
  ['cancelled with words', status(5, says('By the operator')), { reason: 'By the operator' }],
  ['rejected', status(7, says('Not for me')), { type: 'failed', reason: 'Not for me' }],
  [
    'input required',
    status(6, says('Which size?')),
    { type: 'asked', questions: [{ id: 'input', message: 'Which size?' }], state: task },
  ],
  [
    'sign-in required',
    status(8, says('Sign in at https://id.example/a?b=c please')),
    { type: 'authorization', url: 'https://id.example/a?b=c' },
  ],
  [
    'sign-in with data',
    status(8, data({ auth_url: 'https://id.example/x' })),
    { type: 'authorization', url: 'https://id.example/x' },
  ],
  [
    'sign-in while it works, as in Solace Agent Mesh',
    status(
      2,
      says('Jira wants to know you'),
      data({ type: 'authentication_required', auth_uri: 'https://id.example/y' }),
    ),
    {
      type: 'authorization',
      url: 'https://id.example/y',
      reason: 'Jira wants to know you',
    },
  ],
  [
    'sign-in without a web URL',
    status(8, { $case: 'url', value: 'javascript:alert(1)' }),
    { type: 'authorization', url: undefined },
  ],
] as const)('%s', ([_name, given, update]) => {
  expect(toFinalUpdate(given, task)).toMatchObject(update)
})

test.for([0, 1, 2, -1, 99])('does not end at state %i with any data', (state) => {
  expect(toFinalUpdate(status(state), task)).toBeUndefined()
  expect(
    toFinalUpdate(status(state, data({ type: 'tool_result' }), data(null)), task),
  ).toBeUndefined()
})

test('restores the state of a task from JSON', () => {
  expect(parseTaskState(JSON.parse(JSON.stringify(task)))).toEqual(task)
  expect(parseTaskState({ taskId: 1 })).toBeUndefined()
})
