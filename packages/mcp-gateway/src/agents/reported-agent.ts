import { canonicalJson, legible } from '@x/internal'
import { z } from 'zod'
import { UI_SCHEME, type Agent, type AgentUpdate, type Skill } from './agent.ts'

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

const notPage = 'has no text `page`, of up to 4 MiB'
const notUi = `has no \`resourceUri\` of the form ${UI_SCHEME}…`
const ui = z
  .object(
    {
      resourceUri: text(2048).startsWith(UI_SCHEME, { error: notUi }),
      page: z.string({ error: notPage }).max(4_194_304, { error: notPage }),
      visibility: z
        .array(z.enum(['model', 'app']), { error: 'has a `visibility` that is no list' })
        .optional(),
    },
    { error: 'is not a user interface' },
  )
  .optional()

const skillShape = z.object(
  { ...described, ui, tags: texts, examples: texts, inputModes: texts, outputModes: texts },
  NOT_AN_OBJECT,
)

const manySkills = { error: `are not a list of up to ${MAX_SKILLS}` }

const agentShape = z.object(
  {
    ...described,
    ui,
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

/** Returns an agent with legible texts, because models and people read them. Ids and schemas stay. */
export function legibleAgent(agent: Agent): Agent {
  const { name, description, skills } = agent
  return {
    ...agent,
    name: legible(name),
    description: legible(description),
    skills: skills.map(legibleSkill),
  }
}

function legibleSkill(skill: Skill): Skill {
  const { name, description, tags, examples, inputModes, outputModes } = skill
  return {
    ...skill,
    name: legible(name),
    description: legible(description),
    ...(tags && { tags: tags.map(legible) }),
    ...(examples && { examples: examples.map(legible) }),
    ...(inputModes && { inputModes: inputModes.map(legible) }),
    ...(outputModes && { outputModes: outputModes.map(legible) }),
  }
}

/** Returns an update with legible texts about the run. The answer itself stays as the agent wrote it. */
export function legibleUpdate(update: AgentUpdate): AgentUpdate {
  switch (update.type) {
    case 'status':
      return { ...update, text: legible(update.text) }
    case 'failed':
      return { ...update, reason: legible(update.reason) }
    case 'authorization': {
      const { reason, url } = update
      return {
        ...update,
        ...(reason !== undefined && { reason: legible(reason) }),
        ...(url !== undefined && { url: legible(url) }),
      }
    }
    case 'asked': {
      const questions = update.questions.map(({ url, ...one }) => ({
        ...one,
        message: legible(one.message),
        ...(url !== undefined && { url: legible(url) }),
      }))
      return { ...update, questions }
    }
    case 'text':
    case 'file':
    case 'done':
      return update
  }
}
