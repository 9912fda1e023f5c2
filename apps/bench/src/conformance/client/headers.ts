import { connect } from './connection.ts'
import type { Behaviour, Run } from './run.ts'
import type { ToolCall } from './suite-client.ts'

async function useEveryPrimitive(run: Run): Promise<void> {
  await using connection = await connect(run)
  const { client } = connection
  const { tools } = await client.listTools()
  for (const { name } of tools) await client.callTool({ name, arguments: {} })
  const { resources } = await client.listResources()
  for (const { uri } of resources) await client.readResource({ uri })
  const { prompts } = await client.listPrompts()
  for (const { name } of prompts) await client.getPrompt({ name })
}

async function makeCallsOfContext(run: Run): Promise<void> {
  const calls = toolCallsFrom(run.context)
  await using connection = await connect(run)
  await connection.client.listTools() // says which arguments go into headers
  for (const call of calls) await connection.client.callTool(call)
}

async function callSurvivingTools(run: Run): Promise<void> {
  await using connection = await connect(run)
  const { tools } = await connection.client.listTools()
  for (const { name } of tools) {
    await connection.client.callTool({ name, arguments: { region: 'us-west1' } })
  }
}

/** @throws TypeError where the context is not `{ toolCalls: [{ name, arguments }] }`. */
function toolCallsFrom(context: unknown): readonly ToolCall[] {
  if (isObject(context) && Array.isArray(context['toolCalls'])) {
    const calls: readonly unknown[] = context['toolCalls']
    if (calls.every(isToolCall)) return calls
  }
  throw new TypeError('The context names no tool calls')
}

function isToolCall(value: unknown): value is ToolCall {
  return isObject(value) && typeof value['name'] === 'string' && isObject(value['arguments'])
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Headers that repeat what is in the body (SEP-2243). */
export const headers: Readonly<Record<string, Behaviour>> = {
  'http-standard-headers': useEveryPrimitive,
  'http-custom-headers': makeCallsOfContext,
  'http-invalid-tool-headers': callSurvivingTools,
}
