/** An example of a skill, as a prompt. */
export interface PlannedPrompt {
  readonly name: string
  readonly title: string
  readonly description: string
  /** What the user says. */
  readonly text: string
  /** All of which a caller needs to see it: those of its tool. */
  readonly scopes: readonly string[]
}
