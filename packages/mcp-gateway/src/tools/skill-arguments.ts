import { isBlank, isRecord, literalFrom } from '@x/internal'
import type { CheckedInput, JsonSchema, Skill } from '../agents/agent.ts'
import { refusalsOf, validatorFor, type Refusal } from '../agents/schemas.ts'
import { fittedArguments, type Arguments, type FittedArguments } from './fitted-arguments.ts'

/** The arguments of a skill, without the parameters that the gateway adds. */
export interface ReadArguments extends Pick<FittedArguments, 'leftOut'> {
  /** As they were meant. */
  readonly own: Arguments
  readonly input: CheckedInput | { readonly complaint: string }
}

/**
 * Reads the arguments of a skill. Those that its schema refuses are read as they were meant: see `fittedArguments()`. The
 * agent may take some of them although its schema refuses them.
 */
export function readSkillArguments(
  given: Arguments,
  schema: JsonSchema,
  skill: Pick<Skill, 'takes'>,
): ReadArguments {
  if (validatorFor(schema)(given) !== undefined || hasEmptyText(given)) {
    return readRefused(given, schema, skill)
  }
  return { own: given, leftOut: [], input: { kind: 'arguments', value: given } }
}

function readRefused(
  given: Arguments,
  schema: JsonSchema,
  { takes }: Pick<Skill, 'takes'>,
): ReadArguments {
  const properties = isRecord(schema['properties']) ? schema['properties'] : {}
  const answers = new Map<string, { readonly value: unknown; readonly isTaken: boolean }>()
  const isTaken = (name: string, value: unknown): boolean => {
    const last = answers.get(name)
    if (last && last.value === value) return last.isTaken
    const next = { value, isTaken: takes?.(name, value) === true }
    answers.set(name, next)
    return next.isTaken
  }
  const isRefused = ({ place }: Refusal, value: Arguments): boolean => {
    const name = fieldAt(place)
    if (name === undefined || !Object.hasOwn(properties, name)) return true
    return !isTaken(name, value[name])
  }
  const fitted = fittedArguments(given, schema, (value) =>
    refusalsOf(schema, value).filter((refusal) => {
      // An agent that makes numbers of texts would make 0 of an empty one.
      return isBlank(value[fieldAt(refusal.place) ?? '']) || isRefused(refusal, value)
    }),
  )
  const { leftOut, value: own } = fitted
  const accepting = (value: Arguments): ReadArguments => {
    return { own: value, leftOut, input: { kind: 'arguments', value } }
  }
  const complaint = validatorFor(schema)(own)
  if (complaint === undefined) return accepting(own)
  const refusals = refusalsOf(schema, own)
  const first = refusals.find((each) => each.isUnfilled !== true && isRefused(each, own))
  if (first === undefined && refusals.length > 0) {
    const taken = new Set(refusals.map(({ place }) => fieldAt(place)))
    const fields = Object.entries(own).map(([name, value]) => {
      const meant = taken.has(name) ? scalarFrom(value) : undefined
      // `Boolean('false')` is true.
      const isMeant = meant !== undefined && typeof meant === typeIn(properties[name])
      return [name, isMeant && isTaken(name, meant) ? meant : value]
    })
    return accepting(Object.fromEntries(fields))
  }
  if (first === undefined) return { own, leftOut, input: { complaint } }
  // The caller knows only what it has sent.
  const sent = refusalsOf(schema, given).filter(({ place, unknownField }) => {
    const isLeftOut = unknownField !== undefined && leftOut.includes(unknownField)
    return !isLeftOut && (first.place === place || first.place.startsWith(`${place}/`))
  })
  const [nearest = first] = sent.toSorted((a, b) => b.place.length - a.place.length)
  return { own, leftOut, input: { complaint: nearest.text() } }
}

/** Characters of a number or a boolean. */
const MAX_SCALAR = 32

/** Returns the number or the boolean that a text writes. `undefined` for any other value. */
function scalarFrom(value: unknown): unknown {
  if (typeof value !== 'string' || value.length > MAX_SCALAR) return undefined
  const literal = literalFrom(value.trim())
  return typeof literal === 'number' || typeof literal === 'boolean' ? literal : undefined
}

/** Returns the only type of a field, as `typeof` names it. */
function typeIn(field: unknown): unknown {
  const type = isRecord(field) ? field['type'] : undefined
  return type === 'integer' ? 'number' : type
}

/** An empty text may be no value of its format, which the schema alone does not refuse. */
function hasEmptyText(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return value === ''
  return Object.values(value).some(hasEmptyText)
}

/** Returns the name of the field in which a place is. */
function fieldAt(place: string): string | undefined {
  const [, step] = place.split('/', 2)
  return step?.replaceAll('~1', '/').replaceAll('~0', '~')
}
