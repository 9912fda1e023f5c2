import type { ReactElement } from 'react'
import type { PlaygroundState } from '../timeline/state.ts'

export function Figures({ state }: { state: PlaygroundState }): ReactElement {
  return (
    <dl className="figures">
      <div>
        <dt>exchanges</dt>
        <dd>{state.exchanges.length}</dd>
      </div>
    </dl>
  )
}
