import { expect, test } from 'vitest'
import { tasksIn } from './langgraph.ts'

const earlier = { id: 'earlier', value: 'Sure?' }
const question = { id: 'an-interrupt', value: { message: 'Pay?' } }

test.each([
  ['an object, as LangGraph before 1.7 writes it', question, [question]],
  ['an array, as LangGraph 1.7 writes it', [earlier, question], [earlier, question]],
])('reads the interrupts of a task from %s', (_, written, interrupts) => {
  const tasks = tasksIn([
    ['a-task', '__interrupt__', written],
    ['a-task', '__resume__', ['no', 'yes']],
  ])
  expect(tasks.get('a-task')).toEqual({
    interrupts,
    isInterrupted: true,
    answer: 'yes',
    isFinished: false,
    returned: undefined,
  })
})

test.each(['nonsense', null, [], [null], 7])('reads no interrupt from %j', (written) => {
  const task = tasksIn([['a-task', '__interrupt__', written]]).get('a-task')
  expect(task).toMatchObject({ interrupts: [], isInterrupted: true, isFinished: false })
})

test('does not take the source of an error for output of a task', () => {
  const writes = [['a-task', '__error_source_node__', 'tools']]
  expect(tasksIn(writes).get('a-task')?.isFinished).toBe(false)
})
