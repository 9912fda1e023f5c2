import { canonicalJson } from '@x/internal'
import { z } from 'zod'
import type { Agent } from './agent.ts'

const MAX_SKILLS = 1000

/** Refuses unpaired surrogates, because UTF-8 cannot encode them. Each `error` completes the sentence "its id …". */
function text(maxLength: number, minLength = 0): z.ZodString {
  const error = `is not a text of ${minLength} to ${maxLength} characters`
  return z
    .string({ error })
    .min(minLength, { error })
    .max(maxLength, { error })
    .regex(/^\P{Surrogate}*$/u, { error })
}

const described = { id: text(512, 1), name: text(256), description: text(65_536) }

const list = z.array(described.description)
const texts = z
  .custom((value) => list.safeParse(value).success, { error: 'are not a list of texts' })
  .optional()

const NOT_AN_OBJECT = { error: 'it is not an object' }

const skillShape = z.object(
  { ...described, tags: texts, examples: texts, inputModes: texts, outputModes: texts },
  NOT_AN_OBJECT,
)

const manySkills = { error: `are not a list of up to ${MAX_SKILLS}` }

const agentShape = z.object(
  {
    ...described,
    health: z.enum(['healthy', 'degraded'], { error: 'is neither "healthy" nor "degraded"' }),
    skills: z
      .array(skillShape, manySkills)
      .max(MAX_SKILLS, manySkills)
      .refine((skills) => new Set(skills.map(({ id }) => id)).size === skills.length, {
        error: 'have the same id twice',
      }),
  },
  NOT_AN_OBJECT,
)

/**
 * Returns why a value is not an agent, or `undefined` if it is one. Sources report what remote servers sent, so a bad
 * agent is refused here, before it is part of the plan.
 */
export function agentDefectOf(value: unknown): string | undefined {
  const issue = agentShape.safeParse(value).error?.issues[0]
  return issue && defectAt(issue.path, issue.message)
}

function defectAt([key, index, ...rest]: readonly PropertyKey[], message: string): string {
  if (key === undefined) return message
  if (typeof index !== 'number') return `its ${String(key)} ${message}`
  return `its skill ${index + 1} cannot be used: ${defectAt(rest, message)}`
}

/** Compares two reports of an agent. `false` for values that are not JSON, such as a schema that contains itself. */
export function areEqualAgents(one: Agent, other: Agent): boolean {
  try {
    return one === other || canonicalJson(one) === canonicalJson(other)
  } catch {
    return false
  }
}
