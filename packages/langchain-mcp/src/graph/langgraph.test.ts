import {
  Command,
  GraphInterrupt,
  InMemoryStore,
  interrupt,
  MemorySaver,
  MessagesAnnotation,
  Send,
  StateGraph,
  type LangGraphRunnableConfig,
} from '@langchain/langgraph'
import { describe, expect, test } from 'vitest'
import { toGraphStore } from './call-context.ts'
import {
  canKeep,
  executionOf,
  innerNames,
  isInterrupt,
  isPushed,
  keepReturned,
  readTasks,
  storeInside,
  taskInputOf,
  tasksIn,
  type InnerNames,
} from './langgraph.ts'

describe('the installed LangGraph has', () => {
  /** Runs a node that asks, and then answers by the id of its interrupt. Returns the configs of both attempts. */
  async function configsOfNode() {
    const seen: (LangGraphRunnableConfig & { readonly inner: InnerNames })[] = []
    const store = new InMemoryStore()
    const graph = new StateGraph(MessagesAnnotation)
      .addNode('ask', (_state, config) => {
        seen.push({ ...config, inner: innerNames(config.configurable) })
        interrupt('Sure?')
        return {}
      })
      .addConditionalEdges('__start__', () => [new Send('ask', { messages: 'sent' })], ['ask'])
      .compile({ checkpointer: new MemorySaver(), store })
    const config = { configurable: { thread_id: 't1' } }
    await graph.invoke({ messages: [] }, config)
    const { tasks } = await graph.getState(config)
    const id = tasks[0]?.interrupts[0]?.id ?? ''
    await graph.invoke(new Command({ resume: { [id]: 'yes' } }), config)
    const [first, second] = seen
    if (first === undefined || second === undefined) throw new Error('The node did not run twice')
    return { first, second, store, id }
  }

  test('the names that describe a task, its checkpoint and its answers', async () => {
    const { first, second, store, id } = await configsOfNode()
    expect(executionOf(first)).toMatchObject({ taskId: expect.any(String) })
    expect(executionOf(second)?.taskId).toBe(executionOf(first)?.taskId)
    expect(isPushed(first.metadata)).toBe(true)
    expect(taskInputOf(first)).toEqual({ messages: 'sent' })
    expect(first.inner).toMatchObject({ canInterrupt: true, missing: [], answersById: undefined })
    expect(second.inner).toMatchObject({ answersById: { [id]: 'yes' } })
    expect(storeInside(first.store as never)).toBe(store)
    expect(toGraphStore(first.store)).toBe(store)
    expect(isInterrupt(new GraphInterrupt([]))).toBe(true)
  })

  test('checkpoints that keep a value beside the writes of the task', async () => {
    const { second } = await configsOfNode()
    const { saver } = second.inner
    const { taskId = '', checkpointId: checkpoint } = executionOf(second) ?? {}
    const place = { thread: 't1', graph: '', checkpoint }
    if (!canKeep(saver)) throw new Error('The saver has no putWrites()')
    await keepReturned(saver, place, { id: 'a-call', value: 7 })
    const tasks = await readTasks(saver, place)
    expect(tasks.get('a-call')?.returned).toEqual({ value: 7 })
    expect(tasks.get(taskId)?.interrupts).toMatchObject([{ value: 'Sure?' }])
  })
})

test('is outside a graph without all of them', () => {
  expect(executionOf({})).toBeUndefined()
  expect(executionOf({ executionInfo: { taskId: 'a' } })).toBeUndefined()
  expect(taskInputOf({})).toBeUndefined()
  expect(isPushed()).toBe(false)
  expect(storeInside({ lg_name: 'another store', store: {} })).toBeUndefined()
  expect(innerNames()).toMatchObject({ saver: undefined, checkpoints: {}, canInterrupt: true })
})

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
