import { AIMessage, HumanMessage, ToolMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { expect, test } from 'vitest'
import { ScriptedChatModel } from './scripted-chat-model.ts'

const counter = tool(() => 'counter is 2', { name: 'counter_add', schema: { type: 'object' } })

test('a sentence that it knows becomes a call of a bound tool', async () => {
  const answer = await new ScriptedChatModel().bindTools([counter]).invoke('Count up by 2')
  expect(answer).toMatchObject({ tool_calls: [{ name: 'counter_add', args: { by: 2 } }] })
})

test('what a tool answered is repeated', async () => {
  const answer = await new ScriptedChatModel().invoke([
    new HumanMessage('Count up by 2'),
    new AIMessage({ content: '', tool_calls: [{ id: 'a', name: 'counter_add', args: {} }] }),
    new ToolMessage({ content: 'counter is 2', tool_call_id: 'a' }),
  ])
  expect(answer.text).toBe('counter is 2')
})

test('one step comes after the other', async () => {
  const clerk = tool(() => 'done', { name: 'ask_clerk', schema: { type: 'object' } })
  const model = new ScriptedChatModel().bindTools([counter, clerk])
  const messages = [new HumanMessage('Count up by 2, then let the clerk count up by 3')]
  const first = await model.invoke(messages)
  expect(first).toMatchObject({ tool_calls: [{ name: 'counter_add', args: { by: 2 } }] })
  const done = new ToolMessage({ content: 'counter is 2', tool_call_id: 'a' })
  expect(await model.invoke([...messages, first, done])).toMatchObject({
    tool_calls: [{ name: 'ask_clerk', args: { task: 'count up by 3' } }],
  })
})

test('a tool that is not bound is named', async () => {
  const answer = await new ScriptedChatModel().invoke('Count up by 2')
  expect(answer.text).toContain('counter_add')
})
