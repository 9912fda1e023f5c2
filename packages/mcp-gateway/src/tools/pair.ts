import { isRecord } from '@x/internal'
import { digestOf } from './names.ts'
import type { ToolDefinition } from './plan.ts'

/** Tool of the gateway that returns what the `…_start` tools began. */
export const RESULT_TOOL = 'agent_result'
/** Time for which one call of `agent_result` waits. Many clients end a call after 60 s, and some after 30 s. */
export const RESULT_WAIT_MS = 25_000

const START = '_start'
/** Characters of a name that model providers accept. */
const MAX_NAME = 64
/** Digits of a name that is too long to be shown whole. */
const DIGITS = 7

/** Returns the name of the tool that starts a tool. */
export function startNameOf(name: string): string {
  if (name.length + START.length <= MAX_NAME) return name + START
  const digits = digestOf(name).slice(0, DIGITS)
  return `${name.slice(0, MAX_NAME - START.length - DIGITS - 1)}_${digits}${START}`
}

/** Returns the definition of the tool that starts a tool: it takes the same arguments, except `resume`. */
export function startDefinitionOf(tool: ToolDefinition, takesResume: boolean): ToolDefinition {
  const { outputSchema: _, ...definition } = tool
  const { inputSchema, name, title, description } = definition
  const { properties } = inputSchema
  const own = isRecord(properties) ? { ...properties } : {}
  if (takesResume) delete own['resume']
  const how = `Starts ${name}, and answers at once with a handle. Get the result with ${RESULT_TOOL}. Use this instead of ${name} for work that may take longer than 30 seconds.`
  return {
    ...definition,
    name: startNameOf(name),
    title: `${title} (start)`,
    description: `${how}\n\n${description}`,
    inputSchema: { ...inputSchema, ...(isRecord(properties) && { properties: own }) },
  }
}

export const RESULT_DEFINITION: ToolDefinition = {
  name: RESULT_TOOL,
  title: 'Result of started work',
  description: `Returns the result of work that a tool named …${START} began. Waits up to ${RESULT_WAIT_MS / 1000} seconds. If the work is not done by then, the text says so: call again with the same handle. Also answers questions of the work, and cancels it.`,
  inputSchema: {
    type: 'object',
    properties: {
      handle: { type: 'string', maxLength: 256, description: 'The handle of the started work.' },
      answers: {
        type: 'object',
        description: 'Answers to the questions of the work, by their keys. Only if it has asked.',
      },
      cancel: { type: 'boolean', description: 'true: stops the work.' },
    },
    required: ['handle'],
  },
}
