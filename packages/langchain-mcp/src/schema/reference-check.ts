import { isRecord } from '@x/internal'
import type { JsonSchema } from '../catalogue/tool-source.ts'
import { FoundDefect } from './found-defect.ts'
import { LocalReferences } from './local-references.ts'
import type { Referring, SchemaForm } from './schema-form.ts'
import { eachSubschema, pointerOf, schemaKeyword } from './subschemas.ts'

/** How often schemas may apply to one and the same value: references that double at each step grow to any number. */
const MAX_STEPS = 10_000

/** What the `$ref` of a schema leads to. One that only a reference leads to is not among them. */
type Targets = Map<JsonSchema, JsonSchema | boolean>

/**
 * References have to lead to a schema of the same document, and neither in circles nor to any number of
 * schemas for one value.
 *
 * @throws FoundDefect
 */
export function checkReferences(root: JsonSchema, { referring, hasNames }: SchemaForm): void {
  const references = new LocalReferences(root, { hasNames })
  const targets: Targets = new Map()
  for (const one of referring) targets.set(one.schema, targetOf(one, references))
  const isFlat = !hasNames && [...targets].every(isPlainReference)
  if (!isFlat) checkSteps(root, { references, targets })
}

function targetOf({ schema, path }: Referring, references: LocalReferences): JsonSchema | boolean {
  const { $ref } = schema
  if (typeof $ref === 'string') {
    const found = references.resolve($ref, schema)
    if (found.kind === 'schema') return found.schema
    const shown = shortened($ref)
    const where =
      found.kind === 'remote'
        ? `leads to another document ("${shown}"), which is not fetched`
        : `leads nowhere ("${shown}")`
    throw new FoundDefect(`${pointerOf(path)} ${where}`)
  }
  throw new FoundDefect(`${pointerOf(path)} is not a text`)
}

/** In the usual places of definitions, where the walk has been. */
const TO_DEFINITION = /^#\/(?:\$defs|definitions)\/[^/]+$/

/** What leads to a definition that applies nothing else to the same value can neither go in circles nor multiply. */
function isPlainReference([{ $ref }, target]: [JsonSchema, JsonSchema | boolean]): boolean {
  if (typeof $ref !== 'string' || !TO_DEFINITION.test($ref)) return false
  if (typeof target === 'boolean') return true
  return Object.keys(target).every(
    (keyword) => keyword !== '$ref' && schemaKeyword(keyword)?.isInPlace !== true,
  )
}

interface StepContext {
  readonly references: LocalReferences
  readonly targets: Targets
  /** What was counted already. */
  readonly steps: Map<object, number>
  /** What is being counted: meeting one of them again is a circle. */
  readonly around: Set<object>
  /** What applies to a part of the value, and so starts anew. */
  readonly later: JsonSchema[]
}

/** A circle through a part of the value is recursion, which is fine: it ends where the value ends. */
function checkSteps(root: JsonSchema, given: Pick<StepContext, 'references' | 'targets'>): void {
  const later = [root]
  const steps = new Map<object, number>()
  for (let next = later.pop(); next !== undefined; next = later.pop()) {
    stepsOf(next, { ...given, steps, around: new Set(), later })
  }
}

/** How many schemas apply to one value of `schema`. */
function stepsOf(schema: JsonSchema | boolean, context: StepContext): number {
  if (typeof schema === 'boolean') return 1
  const { references, targets, steps, around, later } = context
  const known = steps.get(schema)
  if (known !== undefined) return known
  if (around.has(schema)) throw new FoundDefect('a reference in it leads back to itself')
  around.add(schema)
  let count = 1
  if (schema['$ref'] !== undefined) {
    const target = targets.get(schema) ?? targetOf({ schema, path: ['$ref'] }, references)
    count += stepsOf(target, context)
  }
  eachSubschema(schema, (inner, isInPlace) => {
    if (!isRecord(inner)) return
    if (isInPlace) count += stepsOf(inner, context)
    else later.push(inner)
  })
  if (count > MAX_STEPS) throw new FoundDefect('its references multiply without bound')
  around.delete(schema)
  steps.set(schema, count)
  return count
}

/** A reference may be a URL: its query is nobody's business. */
function shortened(reference: string): string {
  const [start = ''] = reference.split('?')
  return start.length > 100 ? `${start.slice(0, 100)}…` : start
}
