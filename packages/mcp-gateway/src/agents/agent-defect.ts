import { isRecord } from '@x/internal'

const MAX_ID = 512
const MAX_NAME = 256
const MAX_TEXT = 65_536
const MAX_SKILLS = 1000

/**
 * Why something is no agent; `undefined` if it is one. Sources repeat what others told them: what is wrong with
 * one agent is found here, before it can spoil the plan of all.
 */
export function agentDefectOf(value: unknown): string | undefined {
  if (!isRecord(value)) return 'it is no object'
  const { id, name, description, skills, health } = value
  if (!isText(id, MAX_ID) || id === '') return `its id is no text of 1 to ${MAX_ID} characters`
  if (!isText(name, MAX_NAME)) return `its name is no text of up to ${MAX_NAME} characters`
  if (!isText(description, MAX_TEXT)) return 'its description is no text, or too long'
  if (health !== 'healthy' && health !== 'degraded') {
    return 'its health is neither "healthy" nor "degraded"'
  }
  if (!Array.isArray(skills) || skills.length > MAX_SKILLS) {
    return `its skills are no list of up to ${MAX_SKILLS}`
  }
  const ids = new Set<unknown>()
  for (const [index, skill] of skills.entries()) {
    const defect = skillDefectOf(skill)
    if (defect !== undefined) return `its skill ${index + 1} is none: ${defect}`
    const skillId: unknown = isRecord(skill) ? skill['id'] : undefined
    if (ids.has(skillId)) return `two of its skills have the same id`
    ids.add(skillId)
  }
  return undefined
}

function skillDefectOf(value: unknown): string | undefined {
  if (!isRecord(value)) return 'it is no object'
  const { id, name, description } = value
  if (!isText(id, MAX_ID) || id === '') return `its id is no text of 1 to ${MAX_ID} characters`
  if (!isText(name, MAX_NAME)) return `its name is no text of up to ${MAX_NAME} characters`
  if (!isText(description, MAX_TEXT)) return 'its description is no text, or too long'
  const lists = ['tags', 'examples', 'inputModes', 'outputModes']
  const bad = lists.find((list) => value[list] !== undefined && !isTextList(value[list]))
  return bad === undefined ? undefined : `its ${bad} are no list of texts`
}

function isTextList(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => isText(each, MAX_TEXT))
}

/** Half characters are no text: they have no UTF-8, in which all of this is written down. */
function isText(value: unknown, maxLength: number): value is string {
  return typeof value === 'string' && value.length <= maxLength && !/\p{Surrogate}/u.test(value)
}
