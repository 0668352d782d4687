// A scroller that stays at its end while its user is there, and nowhere else.

const NEAR = 48; // px from the end that count as being there

export class Follow {
  #following = true;

  /** @param {HTMLElement} scroller @param {HTMLElement} content @param {(following: boolean) => void} tell */
  constructor(scroller, content, tell) {
    this.scroller = scroller;
    this.tell = tell;
    let last = 0;
    scroller.addEventListener("scroll", () => {
      const { scrollTop } = scroller;
      if (this.#near()) this.#set(true);
      else if (scrollTop < last) this.#set(false); // upward: only its user does that
      last = scrollTop;
    }, { passive: true });
    scroller.addEventListener("wheel", (event) => event.deltaY < 0 && this.#scrollable() && this.#set(false), { passive: true });
    const grown = new ResizeObserver(() => {
      if (this.#following) this.#jump();
      else if (this.#near()) this.#set(true);
    });
    grown.observe(content);
    grown.observe(scroller);
  }

  #near() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR;
  }

  #scrollable() {
    return this.scroller.scrollHeight > this.scroller.clientHeight + NEAR;
  }

  /** @param {boolean} following */
  #set(following) {
    if (following === this.#following) return;
    this.#following = following;
    this.tell(following);
  }

  #jump() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /** To the end, and stay there. */
  end() {
    this.#set(true);
    this.#jump();
    requestAnimationFrame(() => this.#following && this.#jump()); // what came into view may be taller than it was thought to be
  }

  /** Stay where its user looks now. */
  rest() {
    this.#set(false);
  }
}
