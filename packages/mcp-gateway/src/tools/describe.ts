import { shortened } from '../internal/text.ts'
import type { Skill } from '../agents/agent.ts'
import { legible } from '../internal/redacted.ts'

const MAX_LENGTH = 2048
const MAX_EXAMPLES = 3
const NO_FILE = /^(?:text(?:\/plain)?|application\/json)$/i
/** Description of a skill that has none. */
export const NOTHING = 'No description available'

/**
 * Makes the description for models: description, examples, modes and tags of the skill. If the skill makes files, it
 * also says how long they can be read (specification 2026-07-28: the lifetime of a handle must be visible).
 *
 * @param artifactTtlMs milliseconds for which files are kept. @default not mentioned
 */
export function descriptionOf(skill: Skill, artifactTtlMs?: number): string {
  const { description, examples = [], inputModes = [], outputModes = [], tags = [] } = skill
  const modes = [
    inputModes.length > 0 ? `Input modes: ${inputModes.join(', ')}` : '',
    outputModes.length > 0 ? `Output modes: ${outputModes.join(', ')}` : '',
  ]
  const numbered = examples
    .slice(0, MAX_EXAMPLES)
    .map((example, index) => `${index + 1}. ${example.trim()}`)
  const paragraphs = [
    description.trim(),
    numbered.length > 0 ? ['Examples:', ...numbered].join('\n') : '',
    modes.filter(Boolean).join(' | '),
    tags.length > 0 ? `Tags: ${tags.join(', ')}` : '',
  ]
  const body = legible(paragraphs.filter(Boolean).join('\n\n')) || NOTHING
  const lifetime =
    artifactTtlMs !== undefined && outputModes.some((mode) => !NO_FILE.test(mode.trim()))
      ? `\n\nFiles it makes can be read for ${durationOf(artifactTtlMs)}.`
      : ''
  return shortened(body, MAX_LENGTH - lifetime.length) + lifetime
}

function durationOf(ms: number): string {
  const minutes = Math.max(1, Math.round(ms / 60_000))
  if (minutes < 120) return minutes === 1 ? 'a minute' : `${minutes} minutes`
  return `${Math.round(minutes / 60)} hours`
}
