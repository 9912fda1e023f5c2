import type { RunnableConfig } from '@langchain/core/runnables'
import { isRecord } from '@x/internal'
import type { Complaint } from '../calls/schema-check.ts'
import type { ToolLog } from '../tool-log.ts'
import { serverTitle, type McpToolOrigin } from '../tool-origin.ts'
import type { JsonSchema } from '../catalogue/tool-source.ts'
import { invalidArgument, placedPropertiesFrom, type PlacedProperty } from './argument-property.ts'
import type { PathStep } from './json-path.ts'
import { MisfitError, withFixedArgument, type KnownArgument } from './fixed-in-schema.ts'
import { secretsIn } from './hide-secrets.ts'
import { withValueAt } from './merge-arguments.ts'
import {
  isConstant,
  resolveProperty,
  type FixedArgument,
  type NamedResource,
} from './resolve-property.ts'
import { graphInput, inputAtHand, inputOf, type InputResolver } from './run-input.ts'

export interface ArgumentPropertiesOptions {
  readonly origin: McpToolOrigin
  readonly log: ToolLog
  /** @default the state of the graph */
  readonly input?: InputResolver | undefined
  /** What texts may name. @default [] */
  readonly resources?: readonly NamedResource[] | undefined
}

/** The arguments of one call, complete. */
export interface MergedArguments {
  /** As they go over the wire. */
  readonly args: unknown
  /** For callbacks, spans, approval: sensitive values are `<hidden>`. */
  readonly shown: unknown
  /** The texts that nobody may see. */
  readonly secrets: readonly string[]
}

/**
 * The places of a tool's arguments that are out of the model's hands. A place that the tool's schema does
 * not have is skipped, in what the model is shown and in the call, and said once.
 */
export class ArgumentProperties {
  readonly #properties: readonly PlacedProperty[]
  readonly #options: ArgumentPropertiesOptions
  readonly #warned = new Set<string>()
  #shown: { readonly key: string; readonly of: JsonSchema; readonly schema: JsonSchema } | undefined

  /** @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for what cannot be read */
  constructor(
    argumentProperties: Readonly<Record<string, unknown>>,
    options: ArgumentPropertiesOptions,
  ) {
    this.#properties = placedPropertiesFrom(argumentProperties, options.origin)
    this.#options = options
  }

  get isEmpty(): boolean {
    return this.#properties.length === 0
  }

  /**
   * The schema with these places fixed. What depends on the agent's input is shown where a graph is
   * running; elsewhere the model is told to leave it empty. The same object as long as nothing changes.
   */
  fixedSchema(schema: JsonSchema): JsonSchema {
    const isFixed = this.#properties.every(isConstant)
    const atHand = isFixed ? { input: undefined } : inputAtHand(this.#options.input ?? graphInput)
    const known = this.#properties.map((placed) => this.#known(placed, atHand))
    const key = JSON.stringify(known)
    if (this.#shown?.key === key && this.#shown.of === schema) return this.#shown.schema
    let fixed = schema
    for (const [index, placed] of this.#properties.entries()) {
      const argument = known[index]
      if (argument === undefined) continue
      const next = this.#fixed(fixed, placed, argument)
      if (next === undefined) this.#warn(placed)
      else fixed = next
    }
    this.#shown = { key, of: schema, schema: fixed }
    return fixed
  }

  /**
   * The model's arguments with ours in their places: ours win.
   *
   * @throws {McpToolError} `INVALID_STATIC_ARGUMENT` for a path or a value that cannot be used
   */
  async merge(
    args: unknown,
    { schema, config }: { readonly schema: JsonSchema; readonly config: RunnableConfig },
  ): Promise<MergedArguments> {
    const { input: resolver = graphInput, origin, resources = [] } = this.#options
    const isFixed = this.#properties.every(isConstant)
    const input = isFixed ? undefined : await inputOf(config, resolver)
    let merged = args
    let shown = args
    const secrets: string[] = []
    for (const placed of this.#properties) {
      const fixed = resolveProperty(placed, { input, origin, resources })
      if (this.#fixed(schema, placed, knownFrom(fixed)) === undefined) {
        this.#warn(placed)
        continue
      }
      merged = withValueAt(merged, fixed.steps, fixed.value)
      shown = withValueAt(shown, fixed.steps, fixed.shown)
      secrets.push(...secretTextsOf(placed, fixed))
    }
    return { args: merged, shown, secrets: secretsIn(secrets) }
  }

  /** The property that a complaint about merged arguments is due to, if it is one: no model can correct that. */
  causeOf({ place, text }: Complaint): string | undefined {
    const at = place.split('/').slice(1)
    return this.#properties.find(({ steps }) => {
      const last = steps.at(-1)
      const isMissing = last?.kind === 'field' && text.includes(`required property "${last.name}"`)
      if (isMissing && at.length === steps.length - 1) return isBelow(at, steps.slice(0, -1))
      return isBelow(at, steps)
    })?.path
  }

  #known(
    placed: PlacedProperty,
    atHand: { readonly input: unknown } | undefined,
  ): KnownArgument | undefined {
    if (!isConstant(placed) && atHand === undefined) return { kind: 'secret' }
    const { origin, resources = [] } = this.#options
    try {
      return knownFrom(resolveProperty(placed, { input: atHand?.input, origin, resources }))
    } catch {
      return { kind: 'secret' } // whoever calls the tool is told why it cannot be used
    }
  }

  #fixed(schema: JsonSchema, placed: PlacedProperty, known: KnownArgument): JsonSchema | undefined {
    try {
      return withFixedArgument(schema, placed.steps, known)
    } catch (error) {
      if (!(error instanceof MisfitError)) throw error
      throw invalidArgument(this.#options.origin, { path: placed.path, reason: error.message })
    }
  }

  #warn({ path }: PlacedProperty): void {
    if (this.#warned.has(path)) return
    this.#warned.add(path)
    const { log, origin } = this.#options
    const server = serverTitle(origin.server)
    log({
      level: 'warning',
      code: 'ARGUMENT_SKIPPED',
      message: `The argument property "${path}" of tool "${origin.toolName}" of MCP server "${server}" is skipped: the tool's schema has no such place`,
      server,
      tool: origin.toolName,
    })
  }
}

function knownFrom({ value, shown, isSensitive }: FixedArgument): KnownArgument {
  if (value === undefined) return { kind: 'absent' }
  return isSensitive ? { kind: 'secret' } : { kind: 'value', shown }
}

function secretTextsOf(placed: PlacedProperty, { value, isSensitive }: FixedArgument): string[] {
  if (isSensitive) return [...secretsIn(value)]
  if (!Array.isArray(value)) return []
  return placed.items.flatMap((item) => {
    const index = item.steps.at(-1)
    if (index?.kind !== 'item') return []
    const isSecret = 'isSensitive' in item.property && item.property.isSensitive
    const inner: unknown = value[index.index]
    if (isSecret) return [...secretsIn(inner)]
    return Array.isArray(inner)
      ? secretTextsOf(item, { path: '', steps: [], value: inner, shown: inner, isSensitive: false })
      : []
  })
}

/** Whether a JSON pointer, in its parts, is at or below a path. */
function isBelow(pointer: readonly string[], steps: readonly PathStep[]): boolean {
  return (
    pointer.length >= steps.length &&
    steps.every((step, index) => {
      const part = pointer[index]?.replaceAll('~1', '/').replaceAll('~0', '~')
      if (step.kind === 'field') return part === step.name
      return step.kind === 'items' || part === String(step.index)
    })
  )
}

/** `argumentProperties` of a definition, if there are any. */
export function hasArgumentProperties(value: unknown): value is Readonly<Record<string, unknown>> {
  return isRecord(value) && Object.keys(value).length > 0
}
