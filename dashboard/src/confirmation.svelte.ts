// A question before something is done that cannot be undone. Confirmation.svelte shows it.
export interface Question {
  text: string;
  action: string; // what the button says that does it
}

export const asked = $state<{ question: Question | null }>({ question: null });
let answered: (isWanted: boolean) => void = () => {};

export function confirmed(text: string, action: string): Promise<boolean> {
  answer(false); // a question that nobody answers any more
  asked.question = { text, action };
  return new Promise((resolve) => (answered = resolve));
}

export function answer(isWanted: boolean) {
  asked.question = null;
  answered(isWanted);
  answered = () => {};
}
