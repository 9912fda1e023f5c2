import { expectThat } from '../check.ts'

/** Of what came; the rest says no more. */
const SHOWN = 300

/** @throws Error with what was expected and what came. */
export function expectHolds(text: string, part: string): void {
  const came = text.length > SHOWN ? `${text.slice(0, SHOWN)} …` : text
  expectThat(text.includes(part), `expected "${part}", got ${came}`)
}
