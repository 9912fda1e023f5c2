import type { GetPromptResult, Prompt } from '@modelcontextprotocol/server'
import { isRecord, legible } from '@x/internal'
import type { JsonSchema } from '../agents/agent.ts'
import { shortened } from '../internal/text.ts'
import type { PlannedTool } from './plan.ts'

/** An argument of a prompt: the text for `{city}` in an example. */
interface PlannedArgument {
  readonly name: string
  /** Description of the field with this name in the input schema of the skill. */
  readonly description: string | undefined
  /** Values of that field, if it is a choice of texts. Other values are accepted, too. */
  readonly values: readonly string[]
}

/** An example of a skill, as a prompt. */
export interface PlannedPrompt {
  readonly name: string
  readonly title: string
  readonly description: string
  /** Message of the user. Contains `{city}` for the argument `city`. */
  readonly text: string
  /** All of them are required. In the order of the text. */
  readonly arguments: readonly PlannedArgument[]
  /** All of which a caller needs to see it: those of its tool. */
  readonly scopes: readonly string[]
}

const MAX_EXAMPLES = 20
const MAX_TITLE = 80
const MAX_COMPLETIONS = 100

/** A name in braces. Doubled braces, and JSON in braces, are text. */
const ARGUMENT = /(?<!\{)\{([A-Za-z_]\w{0,63})\}(?!\})/g
/** Words in braces that were meant as an argument. */
const WORDS_IN_BRACES = /(?<!\{)\{[^{}[\]":,]+\}(?!\})/g

/** One prompt for each example of a tool's skill. */
export function promptsOf(tool: PlannedTool): readonly PlannedPrompt[] {
  const examples = (tool.skill.examples ?? []).filter((example) => example.trim() !== '')
  return examples.slice(0, MAX_EXAMPLES).map((example, index) => ({
    name: `${tool.name}_example_${index + 1}`,
    title: shortened(example.trim().split('\n')[0] ?? '', MAX_TITLE),
    description: `Example for ${tool.definition.title}`,
    text: example.trim(),
    arguments: argumentsOf(example, tool.skill.inputSchema),
    scopes: tool.scopes,
  }))
}

/** Returns the problem of an example in the configuration: words in braces that are not the name of an argument. */
export function exampleDefect(example: string): string | undefined {
  const wrong = [...example.matchAll(WORDS_IN_BRACES)].find(
    ([words]) => words.replace(ARGUMENT, '') !== '',
  )
  if (wrong === undefined) return undefined
  const rule = 'names have up to 64 letters, digits and "_", and do not begin with a digit'
  return `${shortened(wrong[0], MAX_TITLE)} is not the name of an argument: ${rule}`
}

/** Returns the arguments of an example. */
function argumentsOf(example: string, schema: JsonSchema | undefined): readonly PlannedArgument[] {
  const properties = isRecord(schema?.['properties']) ? schema['properties'] : {}
  const names = new Set([...example.matchAll(ARGUMENT)].map(([, name = '']) => name))
  return [...names].map((name) => {
    const field = Object.hasOwn(properties, name) ? properties[name] : undefined
    const { description, enum: choices } = isRecord(field) ? field : {}
    return {
      name,
      description: typeof description === 'string' ? legible(description) : undefined,
      values: Array.isArray(choices) ? choices.filter((value) => typeof value === 'string') : [],
    }
  })
}

/** Returns the values of an argument that begin with a text, for `completion/complete`. */
export function completeArgument(
  { arguments: all }: PlannedPrompt,
  { name, value }: { readonly name: string; readonly value: string },
): { readonly values: string[]; readonly total: number; readonly hasMore: boolean } {
  const { values = [] } = all.find((one) => one.name === name) ?? {}
  const begun = values.filter((one) => one.toLowerCase().startsWith(value.toLowerCase()))
  const hasMore = begun.length > MAX_COMPLETIONS
  return { values: begun.slice(0, MAX_COMPLETIONS), total: begun.length, hasMore }
}

export function promptDefinitionOf(prompt: PlannedPrompt): Prompt {
  const { name, title, description } = prompt
  const args = prompt.arguments.map(({ name: argument, description: meaning }) => ({
    name: argument,
    ...(meaning !== undefined && { description: meaning }),
    required: true,
  }))
  return { name, title, description, ...(args.length > 0 && { arguments: args }) }
}

/** Fills the arguments in. @returns what is wrong with them, as text, if they are not those of the prompt */
export function promptContentOf(
  prompt: PlannedPrompt,
  args: unknown = {},
): GetPromptResult | string {
  const { name, description, text, arguments: expected } = prompt
  if (!isRecord(args)) return '"arguments" must be an object'
  const names = expected.map((one) => one.name)
  const has = names.length === 0 ? 'it has none' : `it has ${names.join(', ')}`
  const unknown = Object.keys(args).find((given) => !names.includes(given))
  if (unknown !== undefined) {
    return `Prompt ${name} has no argument "${shortened(unknown, MAX_TITLE)}": ${has}`
  }
  const missing = names.find((one) => typeof args[one] !== 'string')
  if (missing !== undefined) return `Prompt ${name} needs the argument "${missing}", as text`
  // A function, because `$` has a meaning in a text of replacement. Arguments in values stay text.
  const filled = text.replace(ARGUMENT, (_, argument: string) => String(args[argument]))
  return { description, messages: [{ role: 'user', content: { type: 'text', text: filled } }] }
}
